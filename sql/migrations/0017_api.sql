-- The functions that the HTTP API calls: one for each operation in gateway/operations, which describes it. Each takes the checked
-- parameters of a request as one jsonb value, runs with the role and the claims of the caller's token, and returns
-- the answer. Row-level security decides what the caller sees. PostgREST or Supabase may expose the same schema.

CREATE SCHEMA api;
COMMENT ON SCHEMA api IS
    'The functions that the HTTP API calls: one for each operation, with the role and claims of the caller.';
GRANT USAGE ON SCHEMA api TO anon, authenticated, service_role, cortana_gateway;

-- The gateway's own role sees no row. It needs this right to find names.
GRANT USAGE ON SCHEMA public, cortana, extensions TO cortana_gateway;

CREATE TYPE api.answer AS (status int, etag text, headers jsonb, body jsonb);
COMMENT ON TYPE api.answer IS
    'An answer: HTTP status; ETag or null; further headers as a JSON object of strings or null; body.';

CREATE FUNCTION api.not_found() RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'there is nothing here that you may see' USING ERRCODE = 'no_data_found';
END
$$;
COMMENT ON FUNCTION api.not_found IS
    'Refuses an object that does not exist, and one that the caller may not see, with the same message.';

CREATE FUNCTION api.require_found(p_is_found boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_is_found IS NOT TRUE THEN
        PERFORM api.not_found();
    END IF;
END
$$;
COMMENT ON FUNCTION api.require_found IS 'Refuses what is not there, or may not be seen, unless the condition that it is holds.';

CREATE FUNCTION api.ok(p_body jsonb) RETURNS api.answer
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN p_body IS NULL THEN api.not_found() ELSE ROW(200, NULL, NULL, p_body)::api.answer END;
COMMENT ON FUNCTION api.ok IS 'The answer 200 with this body; null: refuses what was not found.';

CREATE FUNCTION api.done(p_is_found boolean DEFAULT true) RETURNS api.answer
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN p_is_found THEN ROW(204, NULL, NULL, NULL)::api.answer ELSE api.not_found() END;
COMMENT ON FUNCTION api.done IS 'The answer 204, without a body; false: refuses what was not found.';

CREATE FUNCTION api.all_items(p_items jsonb) RETURNS api.answer
LANGUAGE sql IMMUTABLE
RETURN api.ok(jsonb_build_object('items', coalesce(p_items, '[]'), 'next', NULL));
COMMENT ON FUNCTION api.all_items IS 'A list with a single page.';

CREATE FUNCTION api.versioned(p_body jsonb, VARIADIC p_passing text[] DEFAULT '{}') RETURNS api.answer
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN p_body IS NULL THEN api.not_found()
            ELSE ROW(200, 'W/"' || left(md5((p_body - p_passing)::text), 16) || '"', NULL, p_body)::api.answer END;
COMMENT ON FUNCTION api.versioned IS
    'Like api.ok(), with an ETag of the body without the members that change by themselves (p_passing).';

CREATE FUNCTION api.is_service() RETURNS boolean
LANGUAGE sql STABLE
RETURN current_setting('role') IN ('service_role', 'cortana_upkeep');
COMMENT ON FUNCTION api.is_service IS
    'Whether the request acts for the whole service: an operator''s, or the login of upkeep, which may run the '
    'operations that are granted to it. Reads the role set by SET ROLE, so that SECURITY DEFINER functions can call '
    'it, too.';

-- ---- cursors -----------------------------------------------------------------------------------------------
-- The cursor of a list is base64url of {"k": the last row's sort key, "f": a hash of the filters}. It contains only
-- what its reader has seen. It is not signed: a forged cursor only leads to rows that its author may read anyway.

CREATE FUNCTION api.filters_hash(p jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN left(md5((p - 'cursor' - 'limit')::text), 12);
COMMENT ON FUNCTION api.filters_hash IS
    'A hash of the filters of a list, with which read_cursor() recognises the cursor of another list.';

CREATE FUNCTION api.make_cursor(p jsonb, p_keys jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN rtrim(translate(encode(convert_to(
    jsonb_build_object('k', p_keys, 'f', api.filters_hash(p))::text, 'UTF8'), 'base64'), E'+/\n', '-_'), '=');
COMMENT ON FUNCTION api.make_cursor IS
    'The cursor that points behind the row with this sort key, for a list with these filters.';

CREATE FUNCTION api.read_cursor(p jsonb, p_count int) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    encoded CONSTANT text := translate(p ->> 'cursor', '-_', '+/');
    content jsonb;
BEGIN
    IF encoded IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        content := convert_from(decode(rpad(encoded, (length(encoded) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::jsonb;
    EXCEPTION WHEN data_exception THEN
        content := NULL;
    END;
    IF jsonb_typeof(content -> 'k') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the cursor is not valid: take it from an answer of this list' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF content ->> 'f' IS DISTINCT FROM api.filters_hash(p) OR jsonb_array_length(content -> 'k') <> p_count THEN
        RAISE EXCEPTION 'the cursor belongs to a list with other filters: keep the filters, or begin without a cursor'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN content -> 'k';
END
$$;
COMMENT ON FUNCTION api.read_cursor IS
    'The sort key (p_count values) in the parameter "cursor"; null without the parameter. Refuses the cursor of '
    'another list.';

CREATE TYPE api.listed AS (object jsonb, sort_key jsonb);
COMMENT ON TYPE api.listed IS 'A row of a list: what the caller sees of it, and the values by which the list is ordered.';

CREATE FUNCTION api.page(p jsonb, p_limit int, p_rows api.listed[], p_examined_until jsonb DEFAULT NULL) RETURNS api.answer
LANGUAGE sql IMMUTABLE
RETURN api.ok(jsonb_build_object(
    'items', (SELECT coalesce(jsonb_agg(r.object ORDER BY r.n), '[]')
              FROM unnest(p_rows) WITH ORDINALITY AS r (object, sort_key, n) WHERE r.n <= p_limit),
    'next', CASE WHEN p_examined_until IS NOT NULL THEN api.make_cursor(p, p_examined_until)
                 WHEN cardinality(p_rows) > p_limit THEN api.make_cursor(p, (p_rows[p_limit]).sort_key) END));
COMMENT ON FUNCTION api.page IS
    'A page of a list, whose rows are in order. If there are more, p_rows has one more than p_limit; or p_examined_until says '
    'behind which sort key the search for more goes on.';

-- ---- who asks ----------------------------------------------------------------------------------------------

CREATE FUNCTION api.me(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN api.ok(jsonb_build_object(
        'user_id', auth.uid(),
        'person', own_person(),
        'team_ids', current_team_ids(),
        'role', CASE current_setting('role')
                    WHEN 'service_role' THEN CASE auth.jwt() ->> 'role' WHEN 'service_role' THEN 'service'
                                                                        ELSE 'operator' END
                    WHEN 'cortana_app' THEN CASE auth.jwt() #>> '{app_metadata,cortana_role}'
                                                WHEN 'admin' THEN 'admin' ELSE 'editor' END
                    ELSE 'viewer' END,
        'features', jsonb_build_object('embedding_model', embedding_model_in_use())));
END
$$;

-- ---- videos ------------------------------------------------------------------------------------------------

-- The newest videos of a tenant, and of the service, are read in the order of an index, so that the cost does not
-- grow with their number.
CREATE INDEX videos_owner_newest ON videos (owner_id, created_at, id);
CREATE INDEX videos_team_newest ON videos (team_id, created_at, id) WHERE team_id IS NOT NULL;
CREATE INDEX videos_newest ON videos (created_at, id);

CREATE FUNCTION api.failure_of(p_video uuid) RETURNS jsonb
LANGUAGE sql STABLE
RETURN (SELECT jsonb_build_object('type', j.payload #>> '{error,type}', 'message', j.payload #>> '{error,message}')
        FROM jobs j WHERE j.video_id = p_video AND j.status = 'failed' AND j.scheduled_for IS NULL AND j.payload ? 'error'
        ORDER BY j.finished_at LIMIT 1);
COMMENT ON FUNCTION api.failure_of IS 'Why a video has failed: the error of the first of its jobs that has failed for good.';

CREATE FUNCTION api.video_object(v videos, p_unread jsonb) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', v.id, 'title', coalesce(v.title, v.original_name), 'name', v.original_name, 'status', v.status,
    'owner_id', v.owner_id, 'team_id', v.team_id, 'platform', v.platform,
    'duration_ms', round(v.duration * 1000), 'fps', v.fps, 'resolution', v.resolution,
    'poster_url', CASE WHEN v.s3_thumb_path IS NOT NULL THEN '/api/v1/videos/' || v.id || '/poster' END,
    'size', v.original_size, 'sha256', v.original_sha256, 'original_state', v.original_state,
    'failure', CASE WHEN v.status = 'failed' THEN api.failure_of(v.id) END,
    'truncated', v.truncated, 'duplicate_of', v.duplicate_of, 'unread', p_unread, 'tags', v.tags, 'recorded_at', v.recorded_at,
    'recorded_from', v.recorded_from,
    'favourite', is_favourite(v.id), 'created_at', v.created_at, 'updated_at', v.updated_at);
COMMENT ON FUNCTION api.video_object IS
    'A video as the API shows it, with the result of unread_scripts(). Object keys are not shown.';

CREATE FUNCTION api.video_matches(v videos, p jsonb) RETURNS boolean
LANGUAGE sql STABLE
RETURN (p ->> 'status' IS NULL OR v.status = (p ->> 'status')::video_status)
   AND (p ->> 'tag' IS NULL OR v.tags <> '{}' AND tag_keys(v.tags) @> tag_keys(ARRAY[p ->> 'tag']))
   AND (p ->> 'recorded_after' IS NULL OR v.recorded_at >= (p ->> 'recorded_after')::timestamptz)
   AND (p ->> 'recorded_before' IS NULL OR v.recorded_at < (p ->> 'recorded_before')::timestamptz)
   AND ((p ->> 'favourite')::boolean IS NOT TRUE OR is_favourite(v.id))
   AND (p ->> 'name' IS NULL OR strpos(lower(concat_ws(' ', v.title, v.original_name)), lower(p ->> 'name')) > 0);
COMMENT ON FUNCTION api.video_matches IS 'Whether a video passes the filters of GET /videos, apart from its time.';

CREATE FUNCTION api.newest_videos(p jsonb, p_before timestamptz, p_id uuid, p_limit int) RETURNS SETOF videos
LANGUAGE plpgsql STABLE AS $$
DECLARE
    p_after CONSTANT timestamptz := coalesce((p ->> 'after')::timestamptz, '-infinity');
BEGIN
    IF api.is_service() THEN
        RETURN QUERY
        SELECT v.* FROM videos v
        WHERE (v.created_at, v.id) < (p_before, p_id) AND v.created_at >= p_after AND api.video_matches(v, p)
        ORDER BY v.created_at DESC, v.id DESC LIMIT p_limit;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT v.* FROM (
        (SELECT o.* FROM videos o
         WHERE o.owner_id = auth.uid() AND (o.created_at, o.id) < (p_before, p_id) AND o.created_at >= p_after
           AND api.video_matches(o, p)
         ORDER BY o.created_at DESC, o.id DESC LIMIT p_limit)
        UNION
        SELECT t.* FROM unnest(current_team_ids()) AS team (id) CROSS JOIN LATERAL (
            SELECT o.* FROM videos o
            WHERE o.team_id = team.id AND (o.created_at, o.id) < (p_before, p_id) AND o.created_at >= p_after
              AND api.video_matches(o, p)
            ORDER BY o.created_at DESC, o.id DESC LIMIT p_limit) AS t) AS v
    ORDER BY v.created_at DESC, v.id DESC LIMIT p_limit;
END
$$;
COMMENT ON FUNCTION api.newest_videos IS
    'The caller''s newest videos before (p_before, p_id) that pass the filters of GET /videos. Their own videos and '
    'those of each team are each read in the order of an index.';

CREATE FUNCTION api.videos(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    IF p ->> 'collection' IS NOT NULL THEN
        RETURN api.page(p, wanted, ARRAY(
            SELECT (api.video_object(o.video, u.unread), jsonb_build_array(o.place, o.video_id))::api.listed
            FROM (SELECT v AS video, i.place, i.video_id FROM collection_videos i JOIN videos v ON v.id = i.video_id
                  WHERE i.collection_id = (p ->> 'collection')::uuid AND api.video_matches(v, p)
                    AND v.created_at >= coalesce((p ->> 'after')::timestamptz, '-infinity')
                    AND v.created_at < coalesce((p ->> 'before')::timestamptz, 'infinity')
                    AND (i.place, i.video_id) > (coalesce((keys ->> 0)::int, 0),
                                                 coalesce((keys ->> 1)::uuid, '00000000-0000-0000-0000-000000000000'))
                  ORDER BY i.place, i.video_id LIMIT wanted + 1) AS o, unread_scripts(ARRAY[o.video_id]) AS u
            ORDER BY o.place, o.video_id));
    END IF;
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.video_object(v, u.unread), jsonb_build_array(v.created_at, v.id))::api.listed
        FROM api.newest_videos(p, coalesce((keys ->> 0)::timestamptz, (p ->> 'before')::timestamptz, 'infinity'),
                               coalesce((keys ->> 1)::uuid, '00000000-0000-0000-0000-000000000000'), wanted + 1) AS v,
             unread_scripts(ARRAY[v.id]) AS u
        ORDER BY v.created_at DESC, v.id DESC));
END
$$;

CREATE FUNCTION api.video(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.versioned((SELECT api.video_object(v, u.unread) || jsonb_build_object(
    'container', v.container, 'video_codec', v.video_codec, 'pixel_format', v.pixel_format,
    'audio_codec', v.audio_codec, 'audio_channels', v.audio_channels,
    'description', v.description, 'fields', v.fields,
    'collections', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', c.id, 'name', c.name) ORDER BY c.name, c.id), '[]')
                    FROM collection_videos i JOIN collections c ON c.id = i.collection_id WHERE i.video_id = v.id),
    'lines', (SELECT count(*) FROM segments s WHERE s.video_id = v.id),
    'languages', video_languages(v.id), 'trouble', video_trouble(v))
    FROM videos v, unread_scripts(ARRAY[v.id]) AS u WHERE v.id = (p ->> 'id')::uuid));

CREATE FUNCTION api.require_video(p_id uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM api.require_found(EXISTS (SELECT FROM videos WHERE id = p_id));
END
$$;
COMMENT ON FUNCTION api.require_video IS 'Refuses a video that the caller may not see, like one that does not exist.';

CREATE FUNCTION api.stages(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.require_video((p ->> 'id')::uuid);
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object(
                   'step', s.step, 'job_id', s.job_id, 'job_type', s.job_type, 'status', s.status,
                   'progress', s.progress, 'message', s.progress_message, 'attempt', s.attempt,
                   'retry_count', s.retry_count, 'started_at', s.started_at, 'finished_at', s.finished_at,
                   'retry_at', s.retry_at, 'running_ms', s.running_ms, 'error_type', s.error_type,
                   'error_message', s.error_message) ORDER BY s.started_at NULLS LAST, s.step)
        FROM pipeline_stages s WHERE s.video_id = (p ->> 'id')::uuid));
$$;

-- ---- media -------------------------------------------------------------------------------------------------

CREATE FUNCTION api.grant_media(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    video videos;
    scopes text[] := ARRAY['playback'];
BEGIN
    SELECT * INTO video FROM videos WHERE id = (p ->> 'id')::uuid;
    PERFORM api.require_found(FOUND);
    IF (p ->> 'original')::boolean THEN
        IF (api.is_service() OR video.owner_id = auth.uid()
            OR auth.jwt() #>> '{app_metadata,cortana_role}' = 'admin') IS NOT TRUE THEN
            RAISE EXCEPTION 'the original is for its owner and for administrators' USING ERRCODE = 'insufficient_privilege';
        END IF;
        scopes := scopes || 'original'::text;
    END IF;
    RETURN api.ok(jsonb_build_object(
        'grant', jsonb_build_object('scopes', scopes, 'id', video.id),
        'playlist', video.s3_proxy_path, 'poster', video.s3_thumb_path,
        'thumbnails', regexp_replace(video.s3_thumb_path, '[^/]*$', 'thumbnails.vtt'),
        'original', CASE WHEN 'original' = ANY (scopes) THEN video.s3_original_path END));
END
$$;
COMMENT ON FUNCTION api.grant_media IS
    'POST /videos/{id}/grant: the places of the video''s files for a player, relative to the URL that the gateway '
    'makes from "grant".';

-- ---- text --------------------------------------------------------------------------------------------------

CREATE FUNCTION api.segment_object(s segments, p_with_tracks boolean) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', s.id, 'text', s.text, 't_start', s.t_start, 't_end', s.t_end, 'box', s.bounding_box,
    'end_box', s.end_box, 'confidence', s.confidence, 'language', s.language, 'source', s.source,
    'crop_url', CASE WHEN s.crop_pack IS NOT NULL THEN '/api/v1/segments/' || s.id || '/crop' END)
    || CASE WHEN p_with_tracks THEN jsonb_build_object('track', s.track, 'words', s.words)
            ELSE '{}' END;
COMMENT ON FUNCTION api.segment_object IS
    'A line of text as the API shows it; times in ms of the video. track and words are null if the reading has none.';

CREATE FUNCTION api.segments(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 500);
    keys CONSTANT jsonb := api.read_cursor(p, 3);
BEGIN
    PERFORM api.require_video((p ->> 'id')::uuid);
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.segment_object(s, coalesce((p ->> 'tracks')::boolean, false)),
                jsonb_build_array(s.t_start, s.place, s.id))::api.listed
        FROM segments s
        WHERE s.video_id = (p ->> 'id')::uuid
          AND (s.t_start, s.place, s.id) > (coalesce((keys ->> 0)::int, -1), coalesce((keys ->> 1)::int, 0),
                                            coalesce((keys ->> 2)::uuid, '00000000-0000-0000-0000-000000000000'))
          AND s.t_end >= coalesce((p ->> 'from_ms')::int, 0)
          AND s.t_start <= coalesce((p ->> 'to_ms')::int, 2147483647)
          AND s.confidence >= coalesce((p ->> 'min_confidence')::real, 0)
          AND (p ->> 'lang' IS NULL OR s.language = p ->> 'lang')
          AND (p ->> 'source' IS NULL OR s.source = p ->> 'source')
          AND (p ->> 'q' IS NULL OR position(normal_form(p ->> 'q') IN s.normalized_text) > 0)
          AND (p ->> 'kind' IS NULL OR EXISTS (SELECT FROM entities e WHERE e.segment_id = s.id
                                               AND e.entity_type = p ->> 'kind'))
        ORDER BY s.t_start, s.place, s.id LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.entities(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    PERFORM api.require_video((p ->> 'id')::uuid);
    RETURN api.page(p, wanted, ARRAY(
        SELECT (jsonb_build_object(
                    'kind', e.entity_type, 'value', min(e.value), 'normalized_value', e.normalized_value, 'count', count(*),
                    'places', to_jsonb((array_agg(jsonb_build_object('segment_id', s.id, 't_start', s.t_start, 't_end', s.t_end)
                                                  ORDER BY s.t_start, s.id))[:20])),
                jsonb_build_array(e.entity_type, e.normalized_value))::api.listed
        FROM segments s JOIN entities e ON e.segment_id = s.id
        WHERE s.video_id = (p ->> 'id')::uuid
          AND (p ->> 'kind' IS NULL OR e.entity_type = p ->> 'kind')
          AND (p ->> 'q' IS NULL OR position(normal_form(p ->> 'q') IN e.normalized_value) > 0)
          AND (keys IS NULL OR (e.entity_type, e.normalized_value) > (keys ->> 0, keys ->> 1))
        GROUP BY e.entity_type, e.normalized_value
        ORDER BY e.entity_type, e.normalized_value LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.export(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    video videos;
BEGIN
    SELECT * INTO video FROM videos WHERE id = (p ->> 'id')::uuid;
    PERFORM api.require_found(FOUND);
    RETURN ROW(200, NULL, jsonb_build_object('Content-Disposition', format('attachment; filename="%s.%s"', coalesce(nullif(
        trim(BOTH '-' FROM left(regexp_replace(coalesce(video.title, video.original_name, ''), '[^A-Za-z0-9]+', '-', 'g'), 60)),
        ''), 'video'), p ->> 'format')), NULL)::api.answer;
END
$$;
COMMENT ON FUNCTION api.export IS
    'GET /videos/{id}/export: checks that the caller may export the video, and returns the name of the file. The '
    'gateway writes the text in the same transaction.';

-- ---- pictures ----------------------------------------------------------------------------------------------
-- These functions name an object of the store, or a part of one; the gateway sends it.

CREATE FUNCTION api.crop(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.ok((SELECT jsonb_build_object('object', s.crop_pack, 'offset', s.crop_offset, 'bytes', s.crop_bytes)
               FROM segments s WHERE s.id = (p ->> 'id')::uuid AND s.crop_pack IS NOT NULL));

CREATE FUNCTION api.frame_answer(p_frame kept_frames) RETURNS api.answer
LANGUAGE sql STABLE
RETURN CASE WHEN p_frame.key IS NULL THEN api.not_found()
            ELSE ROW(200, NULL, jsonb_build_object('X-Frame-Time', p_frame.t_ms::text),
                     jsonb_build_object('object', p_frame.key))::api.answer END;
COMMENT ON FUNCTION api.frame_answer IS 'A kept picture, and its time.';

CREATE FUNCTION api.line_frame(p_video_id uuid, p_t_start int, p_t_end int) RETURNS kept_frames
LANGUAGE sql STABLE AS $$
    (SELECT f.* FROM kept_frames f WHERE f.video_id = p_video_id AND f.t_ms >= p_t_start AND f.t_start < p_t_end
     ORDER BY f.t_ms LIMIT 1)
    UNION ALL
    (SELECT f.* FROM kept_frames f WHERE f.video_id = p_video_id AND f.t_ms < p_t_start
     ORDER BY f.t_ms DESC LIMIT 1)
    ORDER BY t_ms DESC LIMIT 1
$$;
COMMENT ON FUNCTION api.line_frame IS
    'The first kept picture of the time in which a line is seen; if there is none, the last one before that time. '
    'thin_frames() keeps such a picture for each line.';

CREATE FUNCTION api.segment_frame(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.frame_answer(f) FROM (VALUES ((p ->> 'id')::uuid)) AS given (id)
    LEFT JOIN segments s ON s.id = given.id
    LEFT JOIN LATERAL api.line_frame(s.video_id, s.t_start, s.t_end) AS f ON true
$$;

CREATE FUNCTION api.kept_frame(p_video_id uuid, p_t int) RETURNS kept_frames
LANGUAGE sql STABLE AS $$
    SELECT k.* FROM kept_frames k WHERE k.video_id = p_video_id
    ORDER BY k.t_start <= p_t DESC, abs(k.t_start - p_t) LIMIT 1
$$;
COMMENT ON FUNCTION api.kept_frame IS
    'The last kept picture whose content appeared at or before a time, in ms; if there is none, the first picture.';

CREATE FUNCTION api.frame(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.frame_answer(f) FROM api.kept_frame((p ->> 'id')::uuid, (p ->> 't')::int) AS f;
$$;

CREATE FUNCTION api.moment_object(p_video videos, p_t int) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'video_id', p_video.id, 'video_title', p_video.title, 't', p_t, 'shown_at', p_video.recorded_at + p_t * interval '1 ms',
    'lines', coalesce((SELECT jsonb_agg(api.segment_object(s, false) ORDER BY s.place, s.id) FROM segments s
                       WHERE s.video_id = p_video.id AND s.t_start <= p_t AND s.t_end > p_t), '[]'),
    'frame_t', (SELECT f.t_ms FROM api.kept_frame(p_video.id, p_t) AS f),
    'frame_url', (SELECT '/api/v1/videos/' || p_video.id || '/frame?t=' || p_t FROM api.kept_frame(p_video.id, p_t) AS f
                  WHERE f.key IS NOT NULL),
    'page_url', '/videos/' || p_video.id || '?t=' || round(p_t / 1000.0, 3));
COMMENT ON FUNCTION api.moment_object IS 'What was on screen in a video at a time, in ms: lines, picture, link.';

CREATE FUNCTION api.moment(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN coalesce((SELECT api.ok(api.moment_object(v, (p ->> 't')::int)) FROM videos v WHERE v.id = (p ->> 'id')::uuid),
                api.not_found());

CREATE FUNCTION api.compare(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH moments AS MATERIALIZED (
        SELECT api.moment_object(a, (p ->> 't')::int) AS one, api.moment_object(b, (p ->> 'other_t')::int) AS two
        FROM videos a, videos b
        WHERE a.id = (p ->> 'id')::uuid AND b.id = coalesce(p ->> 'other', p ->> 'id')::uuid),
    lines AS (
        SELECT one.text AS gone, two.text AS appeared
        FROM moments m, LATERAL (SELECT DISTINCT l ->> 'text' AS text FROM jsonb_array_elements(m.one -> 'lines') AS l) AS one
        FULL JOIN (SELECT DISTINCT l ->> 'text' AS text FROM moments n, jsonb_array_elements(n.two -> 'lines') AS l) AS two
            ON normal_form(two.text) = normal_form(one.text))
    SELECT coalesce((SELECT api.ok(jsonb_build_object(
               'first', m.one, 'second', m.two,
               'gone', (SELECT coalesce(jsonb_agg(gone), '[]') FROM lines WHERE appeared IS NULL),
               'appeared', (SELECT coalesce(jsonb_agg(appeared), '[]') FROM lines WHERE gone IS NULL),
               'kept', (SELECT count(*) FROM lines WHERE gone IS NOT NULL AND appeared IS NOT NULL)))
           FROM moments m), api.not_found());
END;

CREATE FUNCTION api.poster(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.ok((SELECT jsonb_build_object('object', v.s3_thumb_path)
               FROM videos v WHERE v.id = (p ->> 'id')::uuid AND v.s3_thumb_path IS NOT NULL));

-- ---- search ------------------------------------------------------------------------------------------------

CREATE FUNCTION api.marked(p_snippet text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('text', piece.text, 'hit', piece.hit)
                              ORDER BY part.n, NOT piece.hit), '[]')
    FROM regexp_split_to_table(p_snippet, E'\x02') WITH ORDINALITY AS part (text, n)
    CROSS JOIN LATERAL (
        VALUES (split_part(part.text, E'\x03', 1), part.n > 1),
               (CASE WHEN part.n > 1 THEN split_part(part.text, E'\x03', 2) ELSE '' END, false)) AS piece (text, hit)
    WHERE piece.text <> ''
$$;
COMMENT ON FUNCTION api.marked IS
    'A snippet in which characters 2 and 3 enclose the hits, as a list of {text, hit}, so that a page need not parse '
    'HTML.';

CREATE TYPE api.hit AS (n int, passes boolean, segment_id uuid, video_id uuid, owner_id uuid, video_title text, text text,
                        t_start int, t_end int, box jsonb, confidence real, language text, rank real,
                        match_kind text, kinds text[], continued_by uuid[], sources text[]);
COMMENT ON TYPE api.hit IS
    'A line found by a query: its place in the list, and whether it passes the filters. kinds is null if it was not '
    'looked up.';

CREATE FUNCTION api.hits(p jsonb, p_most int) RETURNS SETOF api.hit
LANGUAGE sql STABLE AS $$
    SELECT row_number() OVER (ORDER BY
               CASE p ->> 'sort' WHEN 'newest' THEN v.created_at END DESC NULLS LAST,
               CASE WHEN coalesce(p ->> 'sort', 'rank') = 'rank' THEN s.rank END DESC NULLS LAST,
               CASE WHEN coalesce(p ->> 'sort', 'rank') = 'rank' THEN s.confidence END DESC NULLS LAST,
               s.video_id, s.t_start, s.segment_id)::int,
           s.confidence >= coalesce((p ->> 'min_confidence')::real, 0)
               AND (p ->> 'owner' IS NULL OR v.owner_id = (p ->> 'owner')::uuid) IS TRUE
               AND (p ->> 'team' IS NULL OR v.team_id = (p ->> 'team')::uuid) IS TRUE
               AND (p ->> 'lang' IS NULL OR s.language = p ->> 'lang') IS TRUE
               AND (p ->> 'match' IS NULL OR s.match_kind = p ->> 'match') IS TRUE
               AND ((p ->> 'exact')::boolean IS NOT TRUE OR s.match_kind <> 'fuzzy')
               AND (p ->> 'kind' IS NULL OR p ->> 'kind' = ANY (k.kinds)) IS TRUE,
           s.segment_id, s.video_id, v.owner_id, coalesce(v.title, v.original_name), s.text, s.t_start, s.t_end,
           s.bounding_box, s.confidence, s.language, s.rank, s.match_kind, k.kinds, s.continued_by, s.sources
    FROM search_segments(p ->> 'q', (p ->> 'video')::uuid, p_most, NULL) AS s
    JOIN videos v ON v.id = s.video_id
    LEFT JOIN LATERAL (
        SELECT coalesce(array_agg(DISTINCT e.entity_type ORDER BY e.entity_type), '{}') AS kinds
        FROM entities e WHERE e.segment_id = s.segment_id) AS k
        ON p ->> 'kind' IS NOT NULL OR (p ->> 'facets')::boolean
$$;
COMMENT ON FUNCTION api.hits IS
    'The best p_most lines for a query, ordered by "sort": rank, time (by video, then by time) or newest.';

CREATE FUNCTION api.hit_object(h api.hit, p_terms search_terms) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'segment_id', h.segment_id, 'video_id', h.video_id, 'video_title', h.video_title, 'text', h.text,
    'snippet', api.marked(search_snippet(h.text, p_terms, E'\x02', E'\x03')), 't_start', h.t_start, 't_end', h.t_end,
    'shown_at', (SELECT v.recorded_at + h.t_start * interval '1 ms' FROM videos v WHERE v.id = h.video_id), 'box', h.box, 'confidence', h.confidence,
    'language', h.language, 'rank', h.rank, 'match', h.match_kind,
    'kinds', coalesce(h.kinds, (SELECT array_agg(DISTINCT e.entity_type ORDER BY e.entity_type) FROM entities e
                                WHERE e.segment_id = h.segment_id), '{}'))
    || (SELECT jsonb_build_object(
                   'crop_url', CASE WHEN s.crop_pack IS NOT NULL THEN '/api/v1/segments/' || h.segment_id || '/crop' END,
                   'frame_url', CASE WHEN f.key IS NOT NULL THEN '/api/v1/segments/' || h.segment_id || '/frame' END,
                   'frame_box', CASE WHEN f.key IS NULL THEN NULL
                                     WHEN h.continued_by IS NULL THEN box_at(s, f.t_ms)
                                     ELSE box_around(h.segment_id || h.continued_by, f.t_ms) END,
                   'continued_by', h.continued_by, 'sources', coalesce(h.sources, ARRAY[s.source]))
        FROM (SELECT) AS one LEFT JOIN segments s ON s.id = h.segment_id
             LEFT JOIN LATERAL api.line_frame(s.video_id, s.t_start, s.t_end) AS f ON true);
COMMENT ON FUNCTION api.hit_object IS
    'A hit as the API shows it. p_terms are the terms of the query that are marked in the snippet.';

CREATE FUNCTION api.hit_groups(p_hits api.hit[], p_terms search_terms, p_after int, p_limit int)
RETURNS SETOF api.listed
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
               'video', (SELECT api.video_object(v, u.unread) FROM videos v, unread_scripts(ARRAY[v.id]) AS u WHERE v.id = g.video_id), 'hits', g.hits, 'best', g.best, 'starts', g.starts,
               'items', (SELECT jsonb_agg(api.hit_object(h, p_terms) ORDER BY h.n) FROM unnest(p_hits) AS h
                         WHERE h.n = ANY (g.places[:3]))),
           jsonb_build_array(g.n, g.video_id)
    FROM (SELECT h.video_id, min(h.n) AS n, count(*) AS hits, max(h.rank) AS best, array_agg(h.n ORDER BY h.n) AS places,
                 array_agg(DISTINCT h.t_start) AS starts
          FROM unnest(p_hits) AS h WHERE h.passes GROUP BY h.video_id) AS g
    WHERE g.n > p_after
    ORDER BY g.n LIMIT p_limit
$$;
COMMENT ON FUNCTION api.hit_groups IS
    'Hits grouped by video, each with up to three hits. The video of the best hit comes first.';

CREATE FUNCTION api.facets(p_hits api.hit[]) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH hits AS (SELECT h.* FROM unnest(p_hits) AS h WHERE h.passes)
    SELECT jsonb_build_object(
        'kind', (SELECT coalesce(jsonb_object_agg(f.value, f.n), '{}')
                 FROM (SELECT k.value, count(*) AS n FROM hits, unnest(kinds) AS k (value) GROUP BY 1) AS f),
        'language', (SELECT coalesce(jsonb_object_agg(f.language, f.n), '{}')
                     FROM (SELECT language, count(*) AS n FROM hits WHERE language IS NOT NULL GROUP BY 1) AS f),
        'match', (SELECT coalesce(jsonb_object_agg(f.match_kind, f.n), '{}')
                  FROM (SELECT match_kind, count(*) AS n FROM hits GROUP BY 1) AS f),
        'owner', (SELECT coalesce(jsonb_object_agg(f.owner_id, f.n), '{}')
                  FROM (SELECT owner_id, count(*) AS n FROM hits WHERE owner_id IS NOT NULL
                        GROUP BY 1 ORDER BY 2 DESC LIMIT 50) AS f),
        'video', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', f.video_id, 'title', f.video_title, 'count', f.n)
                                            ORDER BY f.n DESC, f.video_id), '[]')
                  FROM (SELECT video_id, video_title, count(*) AS n FROM hits
                        GROUP BY 1, 2 ORDER BY 3 DESC, 1 LIMIT 50) AS f))
$$;
COMMENT ON FUNCTION api.facets IS 'Counts the hits that pass the filters by kind, language, match, owner and video.';

CREATE FUNCTION api.unread_among(p_video uuid) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT u.unread FROM unread_scripts(
        CASE WHEN p_video IS NOT NULL THEN ARRAY[p_video]
             ELSE ARRAY(SELECT v.id FROM api.newest_videos(
                 '{}', 'infinity', '00000000-0000-0000-0000-000000000000', 500) AS v) END) AS u
$$;
COMMENT ON FUNCTION api.unread_among IS
    'The scripts for which no model was loaded, with their numbers of lines, in a video or, if p_video is null, in '
    'the caller''s newest 500 videos.';

CREATE FUNCTION api.search(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    most CONSTANT int := 1000;     -- as search_segments() returns at most
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 20);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
    terms CONSTANT search_terms := search_parse(p ->> 'q');
    hits CONSTANT api.hit[] := ARRAY(SELECT h FROM api.hits(p, most) AS h);
    last_place int;
    items api.listed[];
    answer api.answer;
BEGIN
    -- The end of the previous page, even if lines before it were added or removed meanwhile.
    SELECT coalesce(min(h.n), (keys ->> 0)::int, 0) INTO last_place
    FROM unnest(hits) AS h WHERE (keys ->> 1)::uuid IN (h.segment_id, h.video_id);
    IF p ->> 'group' = 'video' THEN
        items := ARRAY(SELECT g FROM api.hit_groups(hits, terms, greatest(last_place, (keys ->> 0)::int), wanted + 1) AS g);
    ELSE
        items := ARRAY(
            SELECT (api.hit_object(h, terms), jsonb_build_array(h.n, h.segment_id))::api.listed
            FROM (SELECT * FROM unnest(hits) AS u WHERE u.passes AND u.n > last_place ORDER BY u.n LIMIT wanted + 1) AS h
            ORDER BY h.n);
    END IF;
    answer := api.page(p, wanted, items);
    answer.body := answer.body || jsonb_build_object(
        'of', (SELECT count(*) FROM unnest(hits) AS h WHERE h.passes), 'capped', cardinality(hits) = most);
    IF (p ->> 'facets')::boolean THEN
        answer.body := answer.body || jsonb_build_object('facets', api.facets(hits));
    END IF;
    IF items = '{}' AND keys IS NULL THEN
        answer.body := answer.body || jsonb_build_object('unread', api.unread_among(coalesce((p ->> 'video')::uuid, terms.video)));
    END IF;
    RETURN answer;
END
$$;
COMMENT ON FUNCTION api.search IS
    'GET /search: those of the best 1000 lines for a query that pass the filters, one page at a time, flat or by '
    'video. Each page ranks the same 1000 lines again, so that pages stay consistent while lines are added and '
    'removed. "capped": there are more than these 1000 lines.';

CREATE FUNCTION api.search_by_meaning(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 20);
    vector CONSTANT real[] := ARRAY(SELECT n::real FROM jsonb_array_elements_text(p -> 'vector') AS n);
    model CONSTANT text := coalesce(p ->> 'model', embedding_model_in_use());
    terms CONSTANT search_terms := search_parse(coalesce(p ->> 'filter', ''));
    items jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(api.hit_object(ROW(
               s.n, true, s.segment_id, s.video_id, v.owner_id, coalesce(v.title, v.original_name), s.text, s.t_start, s.t_end,
               s.bounding_box, s.confidence, s.language, s.rank, s.match_kind, NULL, NULL, NULL)::api.hit, terms) ORDER BY s.n), '[]')
    INTO items
    FROM (SELECT row_number() OVER (ORDER BY m.rank DESC, m.confidence DESC, m.video_id, m.t_start, m.segment_id) AS n, m.*
          FROM search_semantic(vector, model, p ->> 'filter', (p ->> 'video')::uuid, wanted) AS m) AS s
    JOIN videos v ON v.id = s.video_id;
    RETURN api.ok(jsonb_build_object('items', items, 'next', NULL, 'of', jsonb_array_length(items),
                                     'capped', jsonb_array_length(items) = wanted));
EXCEPTION WHEN invalid_text_representation THEN
    RAISE EXCEPTION 'vector must be a list of numbers' USING ERRCODE = 'invalid_parameter_value';
END
$$;

CREATE FUNCTION api.search_hits(p jsonb)
    RETURNS TABLE (place bigint, segment_id uuid, t_start int, t_end int, text text, box jsonb, confidence real, language text,
                   object jsonb, link text)
LANGUAGE sql STABLE AS $$
    SELECT row_number() OVER (ORDER BY CASE WHEN p ->> 'format' <> 'srt' THEN h.n END, h.t_start, h.n) AS place,
           h.segment_id, h.t_start, h.t_end, h.text, h.box, h.confidence, h.language,
           CASE WHEN p ->> 'format' = 'jsonl' THEN api.hit_object(h, terms) END,
           coalesce(rtrim(p ->> 'site', '/'), '') || '/videos/' || h.video_id || '?t=' || round(h.t_start / 1000.0, 3)
    FROM search_parse(p ->> 'q') AS terms CROSS JOIN api.hits(p, 1000) AS h
    WHERE h.passes
    ORDER BY place
$$;
COMMENT ON FUNCTION api.search_hits IS
    'The hits of a search for common/export: for subtitles ordered by time, otherwise by "sort".';

CREATE FUNCTION api.export_search(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p ->> 'format' = 'srt' AND coalesce((p ->> 'video')::uuid, (search_parse(p ->> 'q')).video) IS NULL THEN
        RAISE EXCEPTION 'subtitles are of one video: add video=, or ask for csv or jsonl' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN ROW(200, NULL, jsonb_build_object('Content-Disposition', format('attachment; filename="hits.%s"', p ->> 'format')),
               NULL)::api.answer;
END
$$;
COMMENT ON FUNCTION api.export_search IS
    'GET /search/export: the name of the file. The gateway writes the file from api.search_hits() in the same '
    'transaction.';

CREATE FUNCTION api.suggest(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    typed CONSTANT text := lower(normalize(coalesce(substring(p ->> 'q' FROM '\S+$'), ''), NFKC));
    word CONSTANT text := regexp_replace(typed, '^tag:', '');
    wanted CONSTANT int := 10;
    items jsonb;
BEGIN
    WITH newest AS MATERIALIZED (SELECT * FROM api.newest_videos('{}', 'infinity', '00000000-0000-0000-0000-000000000000', 500)),
    -- Names and words are read from few lines, because the rights to an entity are looked up one by one.
    lines AS MATERIALIZED (
        SELECT h.segment_id, lower(h.text) AS text FROM search_segments(ltrim(word, '#@') || '*', NULL, 30, NULL) AS h
        WHERE word ~ '^[#@]?[^-#@:"()*][^:"()*]+$'
        UNION ALL
        (SELECT s.id, NULL FROM newest AS v JOIN segments s ON s.video_id = v.id WHERE word ~ '^[#@].?$' LIMIT 5000))
    SELECT jsonb_agg(jsonb_build_object('text', s.value, 'kind', s.kind) ORDER BY s.place, s.value)
    INTO items
    FROM (SELECT * FROM (
              SELECT 1 AS place, o.name AS value, 'operator' AS kind
              FROM unnest(search_fields()) AS f, concat(f, ':', CASE f WHEN 'owner' THEN 'me' END) AS o (name)
              WHERE typed <> '' AND starts_with(o.name, typed) AND o.name <> typed
              UNION ALL
              SELECT DISTINCT 2, o.field || o.value, 'operator'
              FROM (SELECT 'kind:', t.name FROM entity_types t
                    UNION ALL SELECT 'source:', unnest(line_sources())
                    UNION ALL SELECT 'lang:', first.language
                              FROM (SELECT v.id FROM newest AS v LIMIT 100) AS v,
                                   LATERAL (SELECT s.language FROM segments s WHERE s.video_id = v.id LIMIT 1) AS first) AS o (field, value)
              WHERE starts_with(typed, o.field) AND starts_with(o.field || o.value, typed)
              UNION ALL
              SELECT DISTINCT 3, CASE WHEN filed.under ~ '\s' THEN format('tag:"%s"', filed.under) ELSE 'tag:' || filed.under END, 'tag'
              FROM newest AS v, unnest(v.tags) AS filed (under)
              WHERE length(typed) >= 2 AND starts_with(lower(filed.under), word)
              UNION ALL
              SELECT 3, format('in:"%s"', c.name), 'collection' FROM collections c
              WHERE length(typed) >= 2 AND strpos(lower(c.name), regexp_replace(typed, '^in:"?', '')) > 0
              UNION ALL
              SELECT DISTINCT 3, named.tag, 'tag'
              FROM lines JOIN entities e USING (segment_id),
                   concat(CASE e.entity_type WHEN 'mention' THEN '@' ELSE '#' END, ltrim(e.normalized_value, '#@')) AS named (tag)
              WHERE e.entity_type IN ('mention', 'hashtag') AND word IN (left(named.tag, length(word)), substr(named.tag, 2, length(word)))
              UNION ALL
              SELECT 4, coalesce(v.title, v.original_name), 'title' FROM newest AS v
              WHERE length(typed) >= 2 AND strpos(lower(coalesce(v.title, v.original_name)), typed) > 0
              UNION ALL
              SELECT DISTINCT 5, seen[1], 'word' FROM lines, regexp_matches(lines.text, '\m' || typed || '\w+', 'g') AS seen
              WHERE typed ~ '^[[:alnum:]]{3,}$') AS u
          ORDER BY u.place, u.value LIMIT wanted) AS s;
    RETURN api.all_items(items);
END
$$;

CREATE FUNCTION api.entity_places(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (jsonb_build_object(
                    'video_id', v.id, 'video_title', coalesce(v.title, v.original_name), 'created_at', v.created_at, 'count', count(*),
                    'first', (array_agg(jsonb_build_object('segment_id', s.id, 't_start', s.t_start, 't_end', s.t_end, 'text', s.text)
                                        ORDER BY s.t_start, s.id))[1]),
                jsonb_build_array(v.created_at, v.id))::api.listed
        FROM entities e JOIN segments s ON s.id = e.segment_id JOIN videos v ON v.id = s.video_id
        WHERE e.entity_type = p ->> 'kind' AND e.normalized_value = lower(normalize(p ->> 'value', NFKC))
          AND (keys IS NULL OR (v.created_at, v.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        GROUP BY v.id ORDER BY v.created_at DESC, v.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.timeline(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    buckets CONSTANT int := coalesce((p ->> 'buckets')::int, 400);
    duration_ms int;
    bucket_ms int;
    lines int[];
    hits int[];
BEGIN
    PERFORM api.require_video((p ->> 'id')::uuid);
    SELECT greatest(round(coalesce(v.duration, 0) * 1000)::int,
                    (SELECT coalesce(max(s.t_end), 0) FROM segments s WHERE s.video_id = v.id), 1)
    INTO duration_ms FROM videos v WHERE v.id = (p ->> 'id')::uuid;
    bucket_ms := (duration_ms + buckets - 1) / buckets;
    SELECT array_agg(coalesce(c.n, 0) ORDER BY b.n) INTO lines
    FROM generate_series(0, buckets - 1) AS b (n)
    LEFT JOIN (SELECT d.n, count(*) AS n_lines FROM segments s
               CROSS JOIN LATERAL generate_series(s.t_start / bucket_ms, least(s.t_end / bucket_ms, buckets - 1)) AS d (n)
               WHERE s.video_id = (p ->> 'id')::uuid GROUP BY d.n) AS c (bucket, n) ON c.bucket = b.n;
    IF p ->> 'q' IS NOT NULL THEN
        SELECT array_agg(coalesce(c.n, 0) ORDER BY b.n) INTO hits
        FROM generate_series(0, buckets - 1) AS b (n)
        LEFT JOIN (SELECT least(h.t_start / bucket_ms, buckets - 1), count(*)
                   FROM search_segments(p ->> 'q', (p ->> 'id')::uuid, 1000, NULL) AS h GROUP BY 1) AS c (bucket, n) ON c.bucket = b.n;
    END IF;
    RETURN api.ok(jsonb_build_object('duration_ms', duration_ms, 'bucket_ms', bucket_ms, 'lines', to_jsonb(lines),
                                     'hits', to_jsonb(hits)));
END
$$;

-- ---- jobs --------------------------------------------------------------------------------------------------

-- A BRIN index, because a B-tree would cost every enqueue and every change of state.
CREATE INDEX jobs_created ON jobs USING brin (created_at) WITH (autosummarize = on);
-- Few jobs of tenants have no video (webhooks, commands). This index finds those of one tenant without reading those
-- of others.
CREATE INDEX jobs_tenant_alone ON jobs (tenant_id, created_at, id) WHERE video_id IS NULL AND tenant_id IS NOT NULL;
CREATE INDEX jobs_clip ON jobs ((coalesce(payload ->> 'clip_id', payload #>> '{original_payload,clip_id}')), created_at)
    WHERE job_type = 'clip_generate';

CREATE FUNCTION api.job_states(p_wanted text) RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN CASE p_wanted
    WHEN 'pending' THEN ARRAY['queued']
    WHEN 'processing' THEN ARRAY['processing', 'stopping', 'lost']
    WHEN 'running' THEN ARRAY['processing', 'stopping', 'lost']
    WHEN 'starting' THEN ARRAY['processing', 'stopping', 'lost']
    WHEN 'cancelled' THEN ARRAY['canceled']
    WHEN 'skipped' THEN ARRAY['canceled']
    WHEN 'completed' THEN ARRAY['done']
    WHEN 'succeeded' THEN ARRAY['done']
    WHEN 'error' THEN ARRAY['failed']
    WHEN 'dead_letter' THEN ARRAY['failed']
    WHEN 'retrying' THEN ARRAY['retry']
    WHEN 'open' THEN ARRAY['queued', 'processing', 'stopping', 'lost', 'retry', 'failed']
    ELSE ARRAY[p_wanted] END;
COMMENT ON FUNCTION api.job_states IS
    'The states that a value of the filter "state" selects; words of other queues are accepted.';

CREATE FUNCTION api.named_video(p_id uuid) RETURNS jsonb
LANGUAGE sql STABLE
RETURN (SELECT jsonb_build_object(
            'id', v.id, 'title', coalesce(v.title, v.original_name),
            'poster_url', CASE WHEN v.s3_thumb_path IS NOT NULL THEN '/api/v1/videos/' || v.id || '/poster' END)
        FROM videos v WHERE v.id = p_id);
COMMENT ON FUNCTION api.named_video IS 'What people know a video by: its title and its picture. Null: there is none, or the caller may not see it.';

CREATE FUNCTION api.job_object(j jobs) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', j.id, 'job_type', j.job_type, 'state', job_state(j), 'status', j.status, 'video_id', j.video_id,
    'video', api.named_video(j.video_id), 'run_id', j.run_id, 'step', j.step, 'part', j.part, 'priority', j.priority, 'progress', j.progress,
    'message', j.progress_message, 'attempt', j.attempt, 'retry_count', j.retry_count,
    'max_retries', j.max_retries, 'correlation_id', j.correlation_id, 'created_at', j.created_at,
    'scheduled_for', j.scheduled_for, 'started_at', j.started_at, 'finished_at', j.finished_at,
    'running_ms', round(extract(epoch FROM coalesce(j.finished_at, now()) - j.started_at) * 1000),
    'worker', CASE WHEN api.is_service() THEN j.locked_by END, 'tenant_id', j.tenant_id, 'source', j.source,
    'source_ref', j.source_ref, 'created_by', j.created_by,
    'error', CASE WHEN j.payload ? 'error' THEN jsonb_build_object(
                 'type', j.payload #>> '{error,type}', 'message', j.payload #>> '{error,message}') END);
COMMENT ON FUNCTION api.job_object IS 'A job as lists show it. Only the service sees which worker runs it.';

CREATE FUNCTION api.job_mentions(p_words text, p_id uuid, p_job_type text, p_last_error text, p_video_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT text := lower(p_words);
BEGIN
    RETURN starts_with(p_id::text, wanted) OR strpos(p_job_type, wanted) > 0
           OR p_last_error IS NOT NULL AND strpos(lower(p_last_error), wanted) > 0
           OR p_video_id IS NOT NULL AND EXISTS (
                  SELECT FROM videos WHERE id = p_video_id AND (strpos(lower(title), wanted) > 0 OR strpos(lower(original_name), wanted) > 0));
END
$$;
COMMENT ON FUNCTION api.job_mentions IS
    'Whether a text is the beginning of a job''s id, or a part of its type, its last error, or its video''s title or '
    'file name. Upper and lower case are equal.';

CREATE FUNCTION api.job_matches(j jobs, p jsonb) RETURNS boolean
LANGUAGE sql STABLE
RETURN (p -> 'ids' IS NULL OR p -> 'ids' ? j.id::text)
   AND (p ->> 'type' IS NULL OR j.job_type = p ->> 'type')
   AND (p ->> 'state' IS NULL OR job_state(j) = ANY (api.job_states(p ->> 'state')))
   AND (p ->> 'run' IS NULL OR j.run_id = (p ->> 'run')::uuid)
   AND (p ->> 'source' IS NULL OR j.source = p ->> 'source')
   AND (p ->> 'error' IS NULL OR j.payload #>> '{error,type}' = p ->> 'error')
   AND (p ->> 'priority' IS NULL OR j.priority = priority_number(p ->> 'priority'))
   AND (p ->> 'worker' IS NULL OR api.is_service() AND j.locked_by = p ->> 'worker')
   AND (p ->> 'tenant' IS NULL OR j.tenant_id = (p ->> 'tenant')::uuid)
   AND (p ->> 'created_after' IS NULL OR j.created_at >= (p ->> 'created_after')::timestamptz)
   AND (p ->> 'created_before' IS NULL OR j.created_at < (p ->> 'created_before')::timestamptz)
   AND (p ->> 'q' IS NULL OR api.job_mentions(p ->> 'q', j.id, j.job_type, j.last_error, j.video_id));
COMMENT ON FUNCTION api.job_matches IS 'Whether a job passes the filters of GET /jobs and POST /jobs/bulk.';

CREATE FUNCTION api.own_videos(p_video uuid) RETURNS uuid[]
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT CASE WHEN p_video IS NOT NULL
        THEN ARRAY(SELECT v.id FROM videos v
                   WHERE v.id = p_video AND (v.owner_id = auth.uid() OR v.team_id = ANY (current_team_ids())))
        ELSE ARRAY(SELECT n.id FROM (
            (SELECT v.id, v.created_at FROM videos v
             WHERE v.owner_id = auth.uid() ORDER BY v.created_at DESC, v.id DESC LIMIT 2000)
            UNION
            SELECT v.id, v.created_at FROM unnest(current_team_ids()) AS team CROSS JOIN LATERAL (
                SELECT w.id, w.created_at FROM videos w
                WHERE w.team_id = team ORDER BY w.created_at DESC, w.id DESC LIMIT 2000) AS v
            ORDER BY created_at DESC, id DESC LIMIT 2000) AS n) END
$$;
COMMENT ON FUNCTION api.own_videos IS
    'The caller''s 2,000 newest videos, or p_video if it is theirs, by the same condition as the policy of videos. '
    'SECURITY DEFINER, because under the policy no index gives this order.';

CREATE FUNCTION api.owns_parts(j jobs) RETURNS boolean
LANGUAGE sql STABLE
RETURN j.job_type <> 'clip_generate' OR NOT EXISTS (SELECT FROM clip_parts(j.payload) AS c
                                                    WHERE cardinality(api.own_videos(c.video_id)) = 0);
COMMENT ON FUNCTION api.owns_parts IS
    'Whether all videos of a reel are the caller''s, as the policy of jobs demands. A job that is no reel has no parts.';

CREATE FUNCTION api.newest_keys(p_videos uuid[], p_tenants uuid[], p_before timestamptz, p_id uuid, p_limit int)
    RETURNS TABLE (created_at timestamptz, id uuid)
LANGUAGE plpgsql STABLE ROWS 100
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    examined_most CONSTANT int := 2000;     -- takes 2 ms; looking up the newest jobs of as many videos one by one takes 10 ms
    high CONSTANT timestamptz := least(p_before, now() + interval '1 second');
    width interval;
    examined int;
    found int;
BEGIN
    FOREACH width IN ARRAY '{10 minutes,40 minutes,160 minutes,11 hours,2 days}'::interval[] LOOP
        SELECT count(*), count(*) FILTER (WHERE o.id IS NOT NULL OR j.video_id IS NULL AND j.tenant_id = ANY (p_tenants))
        INTO examined, found
        FROM (SELECT w.video_id, w.tenant_id FROM jobs w
              WHERE w.created_at > high - width AND w.created_at <= p_before AND (w.created_at, w.id) < (p_before, p_id)
              LIMIT examined_most + 1) AS j
        LEFT JOIN unnest(p_videos) AS o (id) ON o.id = j.video_id;
        EXIT WHEN examined > examined_most;
        IF found >= p_limit THEN
            RETURN QUERY
            SELECT j.created_at, j.id FROM jobs j LEFT JOIN unnest(p_videos) AS o (id) ON o.id = j.video_id
            WHERE j.created_at > high - width AND j.created_at <= p_before AND (j.created_at, j.id) < (p_before, p_id)
              AND (o.id IS NOT NULL OR j.video_id IS NULL AND j.tenant_id = ANY (p_tenants))
            ORDER BY j.created_at DESC, j.id DESC LIMIT p_limit;
            RETURN;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION api.newest_keys IS
    'Times and ids of the newest jobs of these videos and tenants, if enough of them are among the newest 2,000 of '
    'all jobs; otherwise none. SECURITY DEFINER, because the policy of jobs would look up each job''s video.';

CREATE FUNCTION api.tenant_keys(p_video uuid, p_before timestamptz, p_id uuid, p_limit int)
    RETURNS TABLE (created_at timestamptz, id uuid)
LANGUAGE plpgsql STABLE ROWS 100
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    many_videos CONSTANT int := 300;
    videos CONSTANT uuid[] := api.own_videos(p_video);
    tenants CONSTANT uuid[] := CASE WHEN p_video IS NULL
        THEN ARRAY(SELECT DISTINCT t FROM unnest(auth.uid() || current_team_ids()) AS t WHERE t IS NOT NULL) ELSE '{}' END;
BEGIN
    IF cardinality(videos) > many_videos THEN
        RETURN QUERY SELECT k.created_at, k.id FROM api.newest_keys(videos, tenants, p_before, p_id, p_limit) AS k;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
    WITH newest AS (
        -- The newest jobs belong to the videos with the newest jobs, so that only one job of each other video is
        -- read.
        SELECT o.id FROM unnest(videos) AS o (id) CROSS JOIN LATERAL (
            SELECT w.created_at, w.id FROM jobs w
            WHERE w.video_id = o.id AND w.created_at <= p_before AND (w.created_at, w.id) < (p_before, p_id)
            ORDER BY w.created_at DESC, w.id DESC LIMIT 1) AS n
        ORDER BY n.created_at DESC, n.id DESC LIMIT p_limit
    )
    SELECT k.created_at, k.id FROM (
        SELECT j.created_at, j.id FROM newest o CROSS JOIN LATERAL (
            SELECT w.created_at, w.id FROM jobs w
            WHERE w.video_id = o.id AND w.created_at <= p_before AND (w.created_at, w.id) < (p_before, p_id)
            ORDER BY w.created_at DESC, w.id DESC LIMIT p_limit) AS j
        UNION ALL
        SELECT j.created_at, j.id FROM unnest(tenants) AS tenant CROSS JOIN LATERAL (
            SELECT w.created_at, w.id FROM jobs w
            WHERE w.tenant_id = tenant AND w.video_id IS NULL
              AND w.created_at <= p_before AND (w.created_at, w.id) < (p_before, p_id)
            ORDER BY w.created_at DESC, w.id DESC LIMIT p_limit) AS j) AS k
    ORDER BY k.created_at DESC, k.id DESC LIMIT p_limit;
END
$$;
COMMENT ON FUNCTION api.tenant_keys IS
    'Times and ids of the newest jobs of own_videos(), and of the tenant''s jobs without a video, mostly by '
    'index-only scans. SECURITY DEFINER, because the policy of jobs would look up each job''s video.';

CREATE FUNCTION api.tenant_jobs(p jsonb, p_limit int) RETURNS SETOF jobs
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT j.*
    FROM api.tenant_keys((p ->> 'video')::uuid, 'infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff',
                         CASE WHEN p = '{}' THEN p_limit ELSE 1000000 END) AS k
    JOIN jobs j USING (id)
    WHERE api.owns_parts(j) AND api.job_matches(j, p)
    ORDER BY k.created_at DESC, k.id DESC LIMIT p_limit
$$;
COMMENT ON FUNCTION api.tenant_jobs IS
    'The newest jobs of tenant_keys() that pass the filters. SECURITY DEFINER for the same reason.';

CREATE FUNCTION api.tenant_page(p jsonb, p_before timestamptz, p_id uuid, p_limit int,
                                OUT items api.listed[], OUT examined_until jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    -- Measured with 100,000 jobs of one owner: either limit takes a tenth of a second of CPU, because words are also
    -- searched in titles.
    examined_most CONSTANT int := CASE WHEN p ? 'q' THEN 5000 ELSE 10000 END;
    limits CONSTANT int[] := CASE WHEN p - ARRAY['video', 'limit', 'cursor'] = '{}' THEN ARRAY[p_limit]
                                 ELSE ARRAY[least(10 * p_limit, examined_most), examined_most] END;
    jobs_wanted int;
    examined bigint;
BEGIN
    FOREACH jobs_wanted IN ARRAY limits LOOP
        WITH keys AS MATERIALIZED (
            SELECT k.created_at, k.id FROM api.tenant_keys((p ->> 'video')::uuid, p_before, p_id, jobs_wanted) AS k
        )
        SELECT ARRAY(SELECT (api.job_object(j), jsonb_build_array(k.created_at, k.id))::api.listed
                     FROM keys k JOIN jobs j USING (id) WHERE api.owns_parts(j) AND api.job_matches(j, p)
                     ORDER BY k.created_at DESC, k.id DESC LIMIT p_limit),
               (SELECT count(*) FROM keys),
               (SELECT jsonb_build_array(k.created_at, k.id) FROM keys k ORDER BY k.created_at, k.id LIMIT 1)
        INTO items, examined, examined_until;
        EXIT WHEN cardinality(items) >= p_limit OR examined < jobs_wanted;
    END LOOP;
    IF cardinality(items) >= p_limit OR examined < jobs_wanted THEN
        examined_until := NULL;
    END IF;
END
$$;
COMMENT ON FUNCTION api.tenant_page IS
    'The newest jobs of tenant_keys() that pass the filters, and their sort keys. If few pass, it stops after the '
    'newest 10,000 jobs (with q: 5,000): examined_until is the sort key of the last examined job; null: all were '
    'examined. SECURITY DEFINER for the same reason as tenant_keys().';

CREATE FUNCTION api.video_jobs(p jsonb, p_before timestamptz, p_id uuid, p_limit int) RETURNS SETOF api.listed
LANGUAGE sql STABLE AS $$
    SELECT api.job_object(j), jsonb_build_array(j.created_at, j.id) FROM jobs j
    WHERE j.video_id = (p ->> 'video')::uuid AND (j.created_at, j.id) < (p_before, p_id) AND api.job_matches(j, p)
    ORDER BY j.created_at DESC, j.id DESC LIMIT p_limit
$$;
COMMENT ON FUNCTION api.video_jobs IS 'The newest jobs of the video in the filters.';

CREATE FUNCTION api.running_jobs(p jsonb, p_before timestamptz, p_id uuid, p_limit int) RETURNS SETOF api.listed
LANGUAGE sql STABLE AS $$
    SELECT api.job_object(j), jsonb_build_array(j.created_at, j.id) FROM jobs j
    WHERE j.status = 'processing' AND (j.created_at, j.id) < (p_before, p_id) AND api.job_matches(j, p)
      AND (p ->> 'video' IS NULL OR j.video_id = (p ->> 'video')::uuid)
    ORDER BY j.created_at DESC, j.id DESC LIMIT p_limit
$$;
COMMENT ON FUNCTION api.running_jobs IS 'The newest jobs that run: the index of running jobs has few.';

CREATE FUNCTION api.window_jobs(p jsonb, p_low timestamptz, p_high timestamptz, p_before timestamptz, p_id uuid,
                                p_limit int) RETURNS SETOF api.listed
LANGUAGE sql STABLE AS $$
    SELECT api.job_object(j), jsonb_build_array(j.created_at, j.id) FROM jobs j
    WHERE j.created_at > p_low AND j.created_at <= p_high AND (j.created_at, j.id) < (p_before, p_id)
      AND api.job_matches(j, p)
    ORDER BY j.created_at DESC, j.id DESC LIMIT p_limit
$$;
COMMENT ON FUNCTION api.window_jobs IS 'The newest jobs of a period, which is a range of the BRIN index.';

CREATE FUNCTION api.all_jobs(p jsonb, p_before timestamptz, p_id uuid, p_limit int,
                             OUT items api.listed[], OUT examined_until jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    time_limit CONSTANT interval := '1 second';
    quick CONSTANT interval := '50 ms';     -- a period that took no longer is followed by one four times as long
    began CONSTANT timestamptz := clock_timestamp();
    window_began timestamptz;
    width interval := '10 minutes';
    high timestamptz := least(p_before, now() + interval '1 second');
    low timestamptz;
BEGIN
    items := '{}';
    LOOP
        low := CASE WHEN width > interval '20 years' THEN '-infinity' ELSE high - width END;
        window_began := clock_timestamp();
        items := items || ARRAY(SELECT j FROM api.window_jobs(p, low, high, p_before, p_id, p_limit - cardinality(items)) AS j);
        EXIT WHEN cardinality(items) >= p_limit OR low = '-infinity';
        IF clock_timestamp() > began + time_limit THEN
            examined_until := jsonb_build_array(low, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
            EXIT;
        END IF;
        width := CASE WHEN clock_timestamp() < window_began + quick THEN width * 4 ELSE width END;
        high := low;
    END LOOP;
END
$$;
COMMENT ON FUNCTION api.all_jobs IS
    'The newest jobs that the caller may see, and their sort keys. Searches growing periods until the page is full. '
    'If few jobs pass the filters, it stops after a second: examined_until says where; null: all jobs were examined.';

CREATE FUNCTION api.jobs_by_id(p jsonb, p_before timestamptz, p_id uuid, p_limit int) RETURNS SETOF api.listed
LANGUAGE sql STABLE AS $$
    SELECT api.job_object(j), jsonb_build_array(j.created_at, j.id) FROM jobs j, replace(p ->> 'q', '-', '') AS digits
    WHERE j.id BETWEEN rpad(digits, 32, '0')::uuid AND rpad(digits, 32, 'f')::uuid
      AND (p ->> 'video' IS NULL OR j.video_id = (p ->> 'video')::uuid)
      AND (j.created_at, j.id) < (p_before, p_id) AND api.job_matches(j, p - 'q')
    ORDER BY j.created_at DESC, j.id DESC LIMIT p_limit
$$;
COMMENT ON FUNCTION api.jobs_by_id IS 'The jobs whose ids begin with the hexadecimal digits in the filter q.';

CREATE FUNCTION api.jobs(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
    before_time CONSTANT timestamptz := coalesce((keys ->> 0)::timestamptz, (p ->> 'created_before')::timestamptz,
                                                 'infinity');
    before_id CONSTANT uuid := coalesce((keys ->> 1)::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    items api.listed[];
    examined_until jsonb;
BEGIN
    IF p ->> 'q' ~* '^[0-9a-f]{8}(-?[0-9a-f]){0,24}-?$' THEN
        items := ARRAY(SELECT j FROM api.jobs_by_id(p, before_time, before_id, wanted + 1) AS j);
    ELSIF NOT api.is_service() THEN
        SELECT a.* INTO items, examined_until FROM api.tenant_page(p, before_time, before_id, wanted + 1) AS a;
    ELSIF api.job_states(p ->> 'state') <@ '{processing,stopping,lost}' THEN
        items := ARRAY(SELECT j FROM api.running_jobs(p, before_time, before_id, wanted + 1) AS j);
    ELSIF p ->> 'video' IS NULL THEN
        SELECT a.* INTO items, examined_until FROM api.all_jobs(p, before_time, before_id, wanted + 1) AS a;
    ELSE
        items := ARRAY(SELECT j FROM api.video_jobs(p, before_time, before_id, wanted + 1) AS j);
    END IF;
    RETURN api.page(p, wanted, items, examined_until);
END
$$;

CREATE FUNCTION api.shown_payload(p_payload jsonb) RETURNS jsonb
LANGUAGE sql STABLE
RETURN CASE WHEN api.is_service() OR current_setting('request.hide_payloads', true) IS DISTINCT FROM 'on' THEN p_payload
            WHEN jsonb_typeof(p_payload) = 'object'
            THEN (SELECT coalesce(jsonb_object_agg(name, NULL::text), '{}') FROM jsonb_object_keys(p_payload) AS name) END;
COMMENT ON FUNCTION api.shown_payload IS
    'A job''s payload or result as the caller may see it: if request.hide_payloads is on, only the service sees '
    'values.';

CREATE FUNCTION api.job_payload(job jobs) RETURNS jsonb
LANGUAGE sql STABLE
RETURN coalesce(job.payload -> 'original_payload', job.payload);
COMMENT ON FUNCTION api.job_payload IS
    'Hook: the payload with which a job was enqueued. Who stores names in payloads that callers know by others replaces it.';

CREATE FUNCTION api.job(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = (p ->> 'id')::uuid;
    PERFORM api.require_found(FOUND);
    RETURN ROW(200, 'W/"' || left(md5(job::text), 16) || '"', NULL,
               api.job_object(job) || jsonb_build_object(
                   'payload', api.shown_payload(api.job_payload(job)),
                   'result', api.shown_payload(job.result),
                   'depends_on', coalesce(job.depends_on, '{}'), 'dedupe_key', job.dedupe_key,
                   'last_error', job.last_error))::api.answer;
END
$$;

-- Not STABLE: the change is made while its arguments are computed, and it must see that change.
CREATE FUNCTION api.changed_job(p_id uuid, p_outcome text, p_refusal text) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_id;
    IF NOT FOUND OR p_outcome = 'not_found' THEN
        RETURN api.not_found();
    ELSIF p_outcome = 'duplicate' THEN
        RAISE EXCEPTION 'another job for the same work waits or runs already'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF p_outcome = 'wrong_state' THEN
        RAISE EXCEPTION 'this job is %; %', job_state(job), p_refusal
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN api.ok(api.job_object(job));
END
$$;
COMMENT ON FUNCTION api.changed_job IS 'The answer of an operation that changes a job: the job, or why it was refused.';

CREATE FUNCTION api.cancel_job(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.changed_job((p ->> 'id')::uuid, public.cancel_job((p ->> 'id')::uuid), 'only jobs that wait or run can be canceled');

CREATE FUNCTION api.retry_job(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.changed_job((p ->> 'id')::uuid, public.retry_job((p ->> 'id')::uuid), 'only failed and canceled jobs are tried again');

-- ---- clips -------------------------------------------------------------------------------------------------

CREATE FUNCTION api.time_in_name(p_ms int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN concat(CASE WHEN p_ms >= 3600000 THEN p_ms / 3600000 || 'h' || lpad((p_ms / 60000 % 60)::text, 2, '0')
                   ELSE (p_ms / 60000)::text END, 'm', to_char(p_ms % 60000 / 1000.0, 'FM00.000'), 's');
COMMENT ON FUNCTION api.time_in_name IS 'A time of a video for the name of a file: 2m03.456s, 1h02m03.456s.';

CREATE FUNCTION api.clip_name(p_video uuid, p_start int, p_end int, p_format text, p_redact jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT concat(regexp_replace(left(ltrim(coalesce(redacted_text(n.name, p_redact), n.name, 'clip'), '. '), 40),
                                 '[[:cntrl:]/\\]', '_', 'g'),
                  '_', api.time_in_name(p_start),
                  CASE WHEN p_format <> 'jpg' THEN '-' || api.time_in_name(CASE
                      WHEN EXISTS (SELECT FROM jobs j WHERE j.video_id = v.id AND j.job_type = 'transcode'
                                   AND j.status IN ('queued', 'processing')) THEN p_end
                      ELSE least(p_end, round(v.duration * 1000)::int) END) END, '.', p_format)
    FROM videos v, LATERAL (SELECT coalesce(nullif(v.title, v.original_name), regexp_replace(v.original_name, '\.[A-Za-z0-9]{1,5}$', ''))) AS n (name)
    WHERE v.id = p_video
$$;
COMMENT ON FUNCTION api.clip_name IS
    'The name of a clip''s file: the video''s title, redacted as the clip, and where the clip begins and ends. A clip ends with its video, whose '
    'length is certain once transcode has ended.';

CREATE FUNCTION cortana.covers_in(p_payload jsonb) RETURNS SETOF jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_array_elements(p_payload -> 'covers')
    UNION ALL SELECT jsonb_array_elements(c.part -> 'covers') FROM clip_parts(p_payload) AS c
$$;
COMMENT ON FUNCTION cortana.covers_in IS 'What a redacted clip covers, in all its parts.';

CREATE FUNCTION api.clip_object(j jobs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'id', c.asked ->> 'clip_id', 'job_id', j.id, 'name', c.name,
        'video_id', j.video_id, 'state', job_state(j), 'progress', j.progress, 'message', j.progress_message,
        't_start', c.asked -> 't_start', 't_end', c.asked -> 't_end', 'format', coalesce(c.asked ->> 'format', 'mp4'),
        'created_at', j.created_at, 'finished_at', j.finished_at, 'removed_at', j.result -> 'removed_at',
        'error', CASE WHEN j.payload ? 'error' THEN jsonb_build_object(
                     'type', j.payload #>> '{error,type}', 'message', j.payload #>> '{error,message}') END,
        'url', NULL, 'expires', NULL)
        || CASE WHEN c.asked ? 'redact' THEN jsonb_build_object(
                    'covered', (SELECT count(*) FROM covers_in(c.asked)),
                    'uncertain', (SELECT count(*) FROM covers_in(c.asked) AS u WHERE NOT (u ->> 'is_certain')::boolean))
                ELSE '{}' END
        || CASE WHEN c.asked ? 'quote' THEN jsonb_build_object('alt', c.asked #> '{quote,alt}') ELSE '{}' END
        || CASE WHEN c.asked ? 'parts' THEN jsonb_build_object(
                    'parts', jsonb_array_length(c.asked -> 'parts') - jsonb_array_length(coalesce(j.result -> 'left_out', '[]')),
                    'places', c.asked -> 'places', 'left_out', (c.asked -> 'left_out') || coalesce(j.result -> 'left_out', '[]'))
                ELSE '{}' END
        || CASE WHEN j.status = 'done' AND j.result ? 'clip_path' AND NOT j.result ? 'removed_at'
                THEN jsonb_build_object(
                    'grant', jsonb_build_object('scopes', ARRAY['clip'], 'id', c.asked ->> 'clip_id'),
                    'path', (j.result ->> 'clip_path')
                            || coalesce('?name=' || ltrim(regexp_replace(c.name, '[^A-Za-z0-9_.-]+', '-', 'g'), '-.'), ''))
                ELSE '{}' END
    FROM (SELECT w.asked, CASE WHEN w.asked ? 'parts'
                 THEN concat(regexp_replace(left(ltrim(w.asked ->> 'words', '. '), 40), '[[:cntrl:]/\\]', '_', 'g'), '.mp4')
                 ELSE api.clip_name(j.video_id, (w.asked ->> 't_start')::int, (w.asked ->> 't_end')::int,
                                        coalesce(w.asked ->> 'format', 'mp4'), w.asked -> 'redact') END AS name
          FROM coalesce(j.payload -> 'original_payload', j.payload) AS w (asked)) AS c
$$;
COMMENT ON FUNCTION api.clip_object IS
    'A clip, from the newest job that makes it. The gateway makes "url" and "expires" from "grant" and "path".';

CREATE FUNCTION api.clip_job(p_id text) RETURNS jobs
LANGUAGE sql STABLE AS $$
    SELECT j FROM jobs j
    WHERE j.job_type = 'clip_generate'
      AND coalesce(j.payload ->> 'clip_id', j.payload #>> '{original_payload,clip_id}') = lower(p_id)
    ORDER BY j.created_at DESC, j.id DESC LIMIT 1
$$;
COMMENT ON FUNCTION api.clip_job IS 'The newest job that makes a clip, among those that the caller may see.';

CREATE FUNCTION api.clip(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.ok((
    SELECT api.clip_object(j) || coalesce((
        SELECT jsonb_build_object('covers', jsonb_agg(jsonb_build_object(
                   'what', c -> 'what', 'text', c -> 'text', 't_start', c -> 't_start', 't_end', c -> 't_end',
                   'is_certain', c -> 'is_certain') ORDER BY n))
        FROM jsonb_array_elements(coalesce(j.payload -> 'original_payload', j.payload) -> 'covers') WITH ORDINALITY AS a (c, n)
        HAVING count(*) > 0), '{}')
    FROM api.clip_job(p ->> 'id') AS j WHERE j.id IS NOT NULL));

CREATE FUNCTION api.clips(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    PERFORM api.require_video((p ->> 'video')::uuid);
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.clip_object(c.job), jsonb_build_array(c.created_at, c.id))::api.listed
        FROM (SELECT DISTINCT ON (coalesce(j.payload ->> 'clip_id', j.payload #>> '{original_payload,clip_id}'))
                     j AS job, j.created_at, j.id, j.result ? 'removed_at' AS is_removed
              FROM jobs j WHERE j.video_id = (p ->> 'video')::uuid AND j.job_type = 'clip_generate'
                AND coalesce(j.payload ->> 'clip_id', j.payload #>> '{original_payload,clip_id}') IS NOT NULL
              ORDER BY coalesce(j.payload ->> 'clip_id', j.payload #>> '{original_payload,clip_id}'),
                       j.created_at DESC, j.id DESC) AS c
        WHERE c.is_removed IS NOT TRUE
          AND (keys IS NULL OR (c.created_at, c.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        ORDER BY c.created_at DESC, c.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION cortana.remove_clip(p_job_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id AND job_type = 'clip_generate';
    IF NOT (api.is_service() OR may_touch(job.tenant_id)) THEN
        RAISE EXCEPTION 'the clip is not yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM mark_clip_removed(job.video_id, job.result ->> 'clip_path');
END
$$;
COMMENT ON FUNCTION cortana.remove_clip IS
    'Marks a clip of the caller as removed; the caller of this function then deletes its object.';

CREATE FUNCTION api.delete_clip(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    job CONSTANT jobs := api.clip_job(p ->> 'id');
BEGIN
    IF job.id IS NULL THEN
        RETURN api.not_found();
    ELSIF job.status <> 'done' OR NOT job.result ? 'clip_path' THEN
        RAISE EXCEPTION 'this clip is %; cancel its job instead', job_state(job)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM remove_clip(job.id);
    RETURN ROW(204, NULL, NULL, jsonb_build_object('remove', job.result ->> 'clip_path'))::api.answer;
END
$$;
COMMENT ON FUNCTION api.delete_clip IS
    'DELETE /clips/{id}. The row is marked first, then the gateway deletes the object in "remove". Repeating the '
    'request deletes it again.';

CREATE FUNCTION api.planned_clip(p jsonb, OUT clip_id uuid, OUT payload jsonb)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM api.require_video((p ->> 'video_id')::uuid);
    SELECT plan.clip_id, plan.payload INTO clip_id, payload
    FROM plan_clip((p ->> 'video_id')::uuid, (p ->> 't_start')::int, (p ->> 't_end')::int,
                   coalesce((p ->> 'padding_ms')::int, 2000), p -> 'options') AS plan;
END
$$;
COMMENT ON FUNCTION api.planned_clip IS 'The clip that a request (ClipRequest) asks for: plan_clip(). Not found: the caller does not see its video.';

CREATE FUNCTION api.clip_covers(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    plan record;
BEGIN
    SELECT * INTO plan FROM api.planned_clip(p);
    RETURN api.ok(jsonb_build_object('covers', coalesce((
        SELECT jsonb_agg(c - '{pack,offset,bytes,x,y}'::text[] ORDER BY n)
        FROM jsonb_array_elements(plan.payload -> 'covers') WITH ORDINALITY AS a (c, n)), '[]')));
END
$$;

CREATE FUNCTION api.asked_clip(p_video_id uuid, p_clip_id uuid, p_payload jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
    made uuid;
BEGIN
    SELECT j.* INTO job FROM jobs j
    WHERE j.job_type = 'clip_generate'
      AND coalesce(j.payload ->> 'clip_id', j.payload #>> '{original_payload,clip_id}') = p_clip_id::text
      AND (j.status IN ('queued', 'processing') OR j.status = 'done' AND NOT j.result ? 'removed_at')
    ORDER BY j.created_at DESC, j.id DESC LIMIT 1;
    IF FOUND THEN
        RETURN api.ok(api.clip_object(job));
    END IF;
    SELECT r.job_id INTO made FROM enqueue_clip(p_video_id, p_clip_id, p_payload) AS r;
    SELECT j.* INTO job FROM jobs j WHERE j.id = made; -- a statement of its own, which sees the new row
    RETURN ROW(202, NULL, jsonb_build_object('Location', '/api/v1/clips/' || p_clip_id),
               api.clip_object(job))::api.answer;
END
$$;
COMMENT ON FUNCTION api.asked_clip IS 'The answer to who asks for a planned clip: the one that there is, or is under way (200), or a new one (202).';

CREATE FUNCTION api.request_clip(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.asked_clip((p ->> 'video_id')::uuid, plan.clip_id, plan.payload) FROM api.planned_clip(p) AS plan);

CREATE FUNCTION api.reel(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT int := 100;           -- parts, as in the worker
    longest CONSTANT int := 1200000;    -- ms with the cards: 7 minutes of CPU (1080x1920, 60 fps), of the ten that a job may take
    card CONSTANT int := 2500;          -- ms, as in the worker
    around CONSTANT int := 2000;        -- ms before and after a line, as of a clip
    stands CONSTANT int := 5000;        -- ms in which a line is read that stands for longer
    places jsonb;
    in_all int;
BEGIN
    WITH found AS (
        SELECT h.n, h.video_id, h.t_start, h.text, greatest(h.t_start - around, 0) AS a, least(h.t_end, h.t_start + stands) + around AS b
        FROM api.hits(p, 1000) AS h WHERE h.passes),
    joined AS (
        SELECT f.*, f.a <= max(f.b) OVER (PARTITION BY f.video_id ORDER BY f.a, f.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS goes_on
        FROM found f),
    numbered AS (SELECT j.*, count(*) FILTER (WHERE j.goes_on IS NOT TRUE) OVER (PARTITION BY j.video_id ORDER BY j.a, j.n) AS place FROM joined j),
    place AS (
        SELECT s.video_id, min(s.n) AS n, min(min(s.n)) OVER (PARTITION BY s.video_id) AS video_n, min(s.t_start) AS moment, min(s.a) AS t_start,
               least(max(s.b), min(s.a) + longest - card) AS t_end, array_agg(s.text ORDER BY s.t_start, s.n) AS texts
        FROM numbered s GROUP BY s.video_id, s.place),
    measured AS (
        SELECT q.*, count(*) OVER () AS places, row_number() OVER (ORDER BY q.n) AS nth, sum(q.t_end - q.t_start + card) OVER (ORDER BY q.n) AS until
        FROM place q)
    SELECT jsonb_agg(jsonb_build_object('video_id', m.video_id, 't_start', m.t_start, 't_end', m.t_end, 'moment', m.moment, 'texts', (
                         SELECT jsonb_agg(u.text ORDER BY u.n) FROM (
                             SELECT t.text, min(t.n) AS n FROM unnest(m.texts) WITH ORDINALITY AS t (text, n) GROUP BY 1) AS u))
                     ORDER BY m.video_n, m.t_start) FILTER (WHERE m.nth <= most AND m.until <= longest), max(m.places)
    INTO places, in_all FROM measured m;
    RETURN (SELECT api.asked_clip(r.video_id, r.clip_id, r.payload)
            FROM plan_reel(coalesce(places, '[]'), in_all, p ->> 'q',
                           jsonb_strip_nulls(jsonb_build_object('redact', p -> 'redact', 'mute', p -> 'mute'))) AS r);
END
$$;

CREATE FUNCTION cortana.quote_crop(p_box jsonb, p_resolution text) RETURNS jsonb
LANGUAGE sql IMMUTABLE
RETURN (SELECT jsonb_build_object('x', x, 'y', y, 'width', least(across, w - x), 'height', least(7 * high, h - y))
        FROM (SELECT split_part(p_resolution, 'x', 1)::int, split_part(p_resolution, 'x', 2)::int,
                     greatest((p_box ->> 'height')::int, 8)) AS size (w, h, high)
             CROSS JOIN LATERAL (SELECT least(greatest((p_box ->> 'width')::int + 4 * high, w / 2), w)) AS wide (across)
             CROSS JOIN LATERAL (SELECT greatest(least((p_box ->> 'x')::int - 2 * high, w - across), 0),
                                        greatest(least((p_box ->> 'y')::int - 3 * high, h - 7 * high), 0)) AS corner (x, y)
        WHERE p_box IS NOT NULL AND p_resolution IS NOT NULL);
COMMENT ON FUNCTION cortana.quote_crop IS 'The part of a picture around a line: three lines above and below it, and at least half of the width.';

CREATE FUNCTION api.quote(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    line segments;
    video videos;
    moment int;
    said text;    -- by the line
    source text[];
BEGIN
    SELECT * INTO line FROM segments WHERE id = (p ->> 'id')::uuid;
    PERFORM api.require_found(FOUND);
    SELECT * INTO video FROM videos WHERE id = line.video_id;
    moment := greatest((SELECT f.t_ms FROM api.line_frame(line.video_id, line.t_start, line.t_end) AS f), line.t_start);
    said := coalesce(redacted_text(line.text, p -> 'redact'), line.text);
    source := clip_source(video.id, moment, p -> 'redact');
    RETURN api.request_clip(jsonb_build_object('video_id', video.id, 't_start', moment, 'options', jsonb_strip_nulls(jsonb_build_object(
        'format', 'jpg', 'max_height', p -> 'max_height', 'redact', p -> 'redact',
        'crop', CASE WHEN (p ->> 'around')::boolean THEN quote_crop(box_at(line, moment), video.resolution) END,
        'quote', jsonb_build_object(
            'alt', format('“%s” – %s, %s', said, source[1], source[2]),
            'lines', array_remove(source || (rtrim(p ->> 'site', '/') || '/videos/' || video.id || '?t=' || round(moment / 1000.0, 3)), NULL))))));
END
$$;

-- ---- uploads -----------------------------------------------------------------------------------------------

CREATE TABLE cortana.upload_sessions (
    id uuid PRIMARY KEY REFERENCES videos ON DELETE CASCADE,
    owner_id uuid,
    size bigint NOT NULL CHECK (size > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    begun_at bigint NOT NULL DEFAULT 0,
    touched_at timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz
);
COMMENT ON TABLE cortana.upload_sessions IS
    'Uploads through the API, each with the id of the video that it creates. The store knows how many bytes have '
    'arrived.';
COMMENT ON COLUMN upload_sessions.owner_id IS 'The user who uploads; null: the service.';
COMMENT ON COLUMN upload_sessions.size IS 'Bytes of the whole upload.';
COMMENT ON COLUMN upload_sessions.begun_at IS
    'Offset at which the last request with bytes began, shown in live events; 0 for uploads in parts.';
COMMENT ON COLUMN upload_sessions.touched_at IS
    'When the last part arrived. An open upload is removed together with its video a week later.';
COMMENT ON COLUMN upload_sessions.completed_at IS
    'When the scanner was told that the upload is complete; null: it is open.';
CREATE INDEX upload_sessions_open ON cortana.upload_sessions (owner_id) WHERE completed_at IS NULL;
SELECT secure_table('upload_sessions');
CREATE POLICY upload_sessions_own ON cortana.upload_sessions TO cortana_app USING (owner_id = (SELECT auth.uid()));
GRANT SELECT ON cortana.upload_sessions TO cortana_app;

CREATE FUNCTION cortana.begin_upload(p_name text, p_size bigint, p_team uuid, p_title text, p_sha256 text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    open_most CONSTANT int := 20;   -- open uploads of one user
    extension CONSTANT text := lower(substring(p_name FROM '\.([A-Za-z0-9]{1,5})$'));
    id CONSTANT uuid := time_ordered_uuid();
    tenant CONSTANT uuid := coalesce(p_team, auth.uid());
    room CONSTANT bigint := tenant_room(tenant);
    twin uuid;
BEGIN
    IF extension IS NULL OR extension <> ALL ('{3gp,avi,flv,m2ts,m4v,mkv,mov,mp4,mpeg,mpg,mts,mxf,ogv,ts,webm,wmv}') THEN
        RAISE EXCEPTION 'this is not the name of a video: such a name ends in .mp4, .mkv, .webm, .mov or the like'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF p_team IS NOT NULL AND NOT (api.is_service() OR p_team = ANY (current_team_ids())) THEN
        RAISE EXCEPTION 'you are not a member of this team' USING ERRCODE = 'invalid_parameter_value';
    ELSIF (SELECT count(*) FROM upload_sessions s WHERE s.owner_id = auth.uid() AND s.completed_at IS NULL) >= open_most THEN
        RAISE EXCEPTION 'you have % uploads under way: finish or cancel one', open_most
            USING ERRCODE = 'configuration_limit_exceeded';
    ELSIF p_size > room THEN
        RAISE EXCEPTION 'the file has % bytes, and only % of the % bytes that may be stored here are free: delete videos, '
            'or ask the operator for more', p_size, room, tenant_max_bytes(tenant)
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    SELECT v.id INTO twin FROM videos v WHERE v.original_sha256 = p_sha256 AND v.owner_id = auth.uid() LIMIT 1;
    IF twin IS NOT NULL THEN
        RAISE EXCEPTION 'you have uploaded this file before: it is the video %', twin
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO videos (id, owner_id, team_id, title, original_name, s3_original_path)
    VALUES (id, auth.uid(), p_team, p_title, p_name, format('videos/original/%s/master.%s', id, extension));
    INSERT INTO upload_sessions (id, owner_id, size) VALUES (id, auth.uid(), p_size);
    RETURN id;
END
$$;
COMMENT ON FUNCTION cortana.begin_upload IS
    'Creates the row of a video before its upload, for a caller who need not have a right on videos. Returns its id.';

CREATE FUNCTION api.upload_answer(p_id uuid, p_status int) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    session upload_sessions;
    video videos;
BEGIN
    SELECT * INTO session FROM upload_sessions s WHERE s.id = p_id;
    SELECT * INTO video FROM videos v WHERE v.id = p_id;
    PERFORM api.require_found(session.id IS NOT NULL AND video.id IS NOT NULL);
    RETURN ROW(p_status, NULL, jsonb_build_object('Location', '/api/v1/uploads/' || p_id), jsonb_build_object(
        'id', p_id, 'video_id', p_id, 'name', video.original_name, 'size', session.size,
        'state', CASE WHEN session.completed_at IS NULL THEN 'open' ELSE 'complete' END,
        'created_at', session.created_at, 'location', '/api/v1/uploads/' || p_id,
        'key', video.s3_original_path))::api.answer;
END
$$;
COMMENT ON FUNCTION api.upload_answer IS
    'An upload of the caller. The gateway adds "mode", "offset" and "parts" from what its store has under "key".';

CREATE FUNCTION api.create_upload(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    id uuid;
BEGIN
    -- What people upload belongs to the tenant in which they work.
    id := begin_upload(p ->> 'name', (p ->> 'size')::bigint,
                       coalesce(p ->> 'team_id', CASE WHEN auth.jwt() ? 'session' THEN auth.jwt() #>> '{app_metadata,team_id}' END)::uuid,
                       p ->> 'title', p ->> 'sha256');
    RETURN api.upload_answer(id, 201);
END
$$;

CREATE FUNCTION api.upload(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.upload_answer((p ->> 'id')::uuid, 200);

CREATE FUNCTION cortana.touch_upload(p_id uuid, p_offset text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE upload_sessions SET touched_at = clock_timestamp(),
        begun_at = CASE WHEN p_offset ~ '^[0-9]{1,15}$' THEN least(p_offset::bigint, size) ELSE begun_at END
    WHERE id = p_id AND completed_at IS NULL AND (owner_id = auth.uid() OR api.is_service())
$$;
COMMENT ON FUNCTION cortana.touch_upload IS 'Records that an upload of the caller continues, and at which offset.';

CREATE FUNCTION api.append_upload(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    answer CONSTANT api.answer := api.upload_answer((p ->> 'id')::uuid, 200);
BEGIN
    IF answer.body ->> 'state' <> 'open' THEN
        RAISE EXCEPTION 'this upload is complete' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM touch_upload((p ->> 'id')::uuid, p ->> 'offset');
    RETURN answer;
END
$$;
COMMENT ON FUNCTION api.append_upload IS
    'PATCH /uploads/{id}: checks that the caller may send bytes; the gateway writes them.';

CREATE FUNCTION cortana.end_upload(p_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE upload_sessions SET completed_at = clock_timestamp()
    WHERE id = p_id AND completed_at IS NULL AND (owner_id = auth.uid() OR api.is_service());
    IF FOUND THEN
        PERFORM announce_upload((SELECT s3_original_path FROM videos WHERE id = p_id));
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.end_upload IS 'Tells the scanner, once, that an upload of the caller is complete.';

CREATE FUNCTION api.upload_parts(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT int := 100;   -- URLs in one answer
BEGIN
    IF jsonb_array_length(p -> 'numbers') NOT BETWEEN 1 AND most
       OR EXISTS (SELECT FROM jsonb_array_elements(p -> 'numbers') AS n
                  WHERE jsonb_typeof(n) <> 'number' OR n::text !~ '^[1-9][0-9]{0,4}$') THEN
        RAISE EXCEPTION 'numbers must be a list of 1 to % numbers of parts, which begin with 1', most
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN api.append_upload(p);
END
$$;
COMMENT ON FUNCTION api.upload_parts IS
    'POST /uploads/{id}/parts: checks that the caller may send parts; the gateway makes the URLs at which the bucket '
    'accepts them.';

CREATE FUNCTION api.complete_upload(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT touch_upload((p ->> 'id')::uuid);
    SELECT api.upload_answer((p ->> 'id')::uuid, 200);
$$;
COMMENT ON FUNCTION api.complete_upload IS
    'POST /uploads/{id}/complete: checks that the caller may complete this upload. The gateway joins the parts in its '
    'store, and then calls api.finish_upload().';

CREATE FUNCTION api.finish_upload(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT api.upload_answer((p ->> 'id')::uuid, 200); -- refuses an upload of somebody else
    SELECT end_upload((p ->> 'id')::uuid);
    SELECT api.upload_answer((p ->> 'id')::uuid, 200);
$$;
COMMENT ON FUNCTION api.finish_upload IS
    'Reports that all bytes of an upload are in the store. The scanner checks the object itself.';

CREATE FUNCTION cortana.drop_upload(p_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM upload_sessions
                   WHERE id = p_id AND completed_at IS NULL AND (owner_id = auth.uid() OR api.is_service())) THEN
        RAISE EXCEPTION 'this upload is complete: delete the video instead' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM delete_video(p_id);
END
$$;
COMMENT ON FUNCTION cortana.drop_upload IS 'Deletes an open upload of the caller and the row of its video.';

CREATE FUNCTION api.cancel_upload(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    answer api.answer := api.upload_answer((p ->> 'id')::uuid, 204);
BEGIN
    PERFORM drop_upload((p ->> 'id')::uuid);
    answer.headers := NULL;
    answer.body := jsonb_build_object('id', p ->> 'id', 'key', answer.body ->> 'key');
    RETURN answer;
END
$$;
COMMENT ON FUNCTION api.cancel_upload IS
    'DELETE /uploads/{id}: cancels an upload. The gateway deletes the bytes that have arrived.';

-- ---- changes to videos -------------------------------------------------------------------------------------

CREATE FUNCTION cortana.require_own_video(p_id uuid) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    video videos;
BEGIN
    SELECT * INTO video FROM videos WHERE id = p_id;
    IF video.id IS NULL OR NOT (api.is_service() OR may_touch(video.owner_id) OR may_touch(video.team_id)) THEN
        PERFORM api.not_found();
    ELSIF (api.is_service() OR video.owner_id = auth.uid()
           OR auth.jwt() #>> '{app_metadata,cortana_role}' = 'admin') IS NOT TRUE THEN
        RAISE EXCEPTION 'this is for the owner of the video and for administrators' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.require_own_video IS
    'Refuses a video that the caller may not see, like one that does not exist, and a video that the caller may see '
    'but not change.';

CREATE FUNCTION api.delete_video(p jsonb) RETURNS api.answer
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT require_own_video((p ->> 'id')::uuid);
    SELECT public.delete_video((p ->> 'id')::uuid);
    SELECT 202, NULL, NULL::jsonb, jsonb_build_object('id', p ->> 'id');
$$;

CREATE FUNCTION api.reprocess_video(p jsonb) RETURNS api.answer
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT require_own_video((p ->> 'id')::uuid);
    SELECT 202, NULL, NULL::jsonb, jsonb_build_object('run_id', public.reprocess_video((p ->> 'id')::uuid));
$$;

CREATE FUNCTION api.reindex_video(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT require_own_video((p ->> 'id')::uuid);
    SELECT 202, NULL, NULL::jsonb, jsonb_build_object('run_id', r.run_id)
    FROM public.reindex_video((p ->> 'id')::uuid, string_to_array(p ->> 'languages', '+')) AS r;
$$;

CREATE FUNCTION api.add_subtitles(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 50; -- files of a video, each up to 1 MiB by this way
    video CONSTANT uuid := p ->> 'id';
    file CONSTANT text := 'master' || subtitle_ending(p ->> 'name');
    key CONSTANT text := format('videos/original/%s/%s', video, file);
    job uuid;
BEGIN
    PERFORM require_own_video(video);
    IF file IS NULL THEN
        RAISE EXCEPTION 'subtitles are files whose names end in .srt, .vtt, .ass or .ssa'
            USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name';
    ELSIF (SELECT count(*) FROM subtitle_files WHERE video_id = video AND name <> file) >= most THEN
        RAISE EXCEPTION 'a video has at most % files of subtitles', most USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF p ? 'etag' THEN
        DELETE FROM subtitle_files WHERE video_id = video AND name = file; -- the same bytes again are read again
        SELECT job_id INTO job FROM register_subtitles(key, (p ->> 'size')::bigint, p ->> 'etag');
        RETURN ROW(202, NULL, NULL, jsonb_build_object('job_id', job))::api.answer;
    END IF;
    RETURN ROW(202, NULL, NULL, jsonb_build_object('key', key))::api.answer;
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION api.own_videos, api.newest_keys, api.tenant_keys, api.tenant_jobs, api.tenant_page TO authenticated, service_role;
GRANT EXECUTE ON FUNCTION cortana.quote_crop, cortana.covers_in TO authenticated;
GRANT EXECUTE ON FUNCTION cortana.touch_upload, cortana.remove_clip, cortana.begin_upload, cortana.end_upload, cortana.drop_upload,
    cortana.require_own_video TO cortana_app;
