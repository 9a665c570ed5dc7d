-- Links by which somebody without an account sees a video, a part of one, a clip, or what a saved search has found: just that.

CREATE TABLE cortana.sharing_tenants (
    tenant_id uuid PRIMARY KEY,
    allowed_by text NOT NULL,
    allowed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.sharing_tenants IS
    'Tenants that allow links for strangers; without its row a tenant''s links do not work. Null bytes stand for what belongs to nobody.';
SELECT secure_table('cortana.sharing_tenants');

CREATE TABLE cortana.shares (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    tenant_id uuid NOT NULL,
    video_id uuid REFERENCES videos ON DELETE CASCADE,
    clip_id uuid,
    search_id uuid REFERENCES saved_searches ON DELETE CASCADE,
    from_ms int CHECK (from_ms >= 0),
    to_ms int CHECK (to_ms > from_ms),
    at_ms int NOT NULL DEFAULT 0 CHECK (at_ms >= 0),
    may_download boolean NOT NULL DEFAULT false,
    made_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ends_at timestamptz,
    views bigint NOT NULL DEFAULT 0,
    seen_at timestamptz,
    revoked_at timestamptz,
    CHECK (num_nonnulls(video_id, search_id) = 1 AND (clip_id IS NULL OR video_id IS NOT NULL)),
    CHECK (num_nulls(from_ms, to_ms) <> 1)
);
COMMENT ON TABLE cortana.shares IS 'Links for strangers. They end with what they show.';
COMMENT ON COLUMN shares.hash IS 'SHA-256 of the code in the link.';
COMMENT ON COLUMN shares.tenant_id IS 'Whose it is: the team or the owner of the video, or of the search.';
COMMENT ON COLUMN shares.from_ms IS 'The part of the video that is shown, and that a clip has; null: all of it.';
COMMENT ON COLUMN shares.at_ms IS 'Where the video begins to play.';
COMMENT ON COLUMN shares.made_by IS 'The name of the person who made it, or "service".';
COMMENT ON COLUMN shares.views IS 'How often it was opened. Files and pages of lines are not counted.';
CREATE INDEX shares_tenant ON cortana.shares (tenant_id, created_at, id);
CREATE INDEX shares_video ON cortana.shares (video_id);
CREATE INDEX shares_search ON cortana.shares (search_id);
SELECT secure_table('cortana.shares');

-- ---- who shares --------------------------------------------------------------------------------------------

CREATE FUNCTION cortana.share_tenant(p_video_id uuid, p_search_id uuid) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    tenant uuid;
BEGIN
    IF p_video_id IS NOT NULL THEN
        SELECT coalesce(v.team_id, v.owner_id, nobody) INTO tenant FROM videos v
        WHERE v.id = p_video_id AND (api.is_service() OR may_touch(v.owner_id) OR may_touch(v.team_id));
    ELSIF p_search_id IS NOT NULL THEN
        SELECT coalesce(s.tenant_id, nobody) INTO tenant FROM saved_searches s
        WHERE s.id = p_search_id AND may_touch(s.tenant_id);
    ELSE
        tenant := coalesce((current_team_ids())[1], auth.uid(), nobody);
    END IF;
    IF tenant IS NULL THEN
        PERFORM api.not_found();
    END IF;
    RETURN tenant;
END
$$;
COMMENT ON FUNCTION cortana.share_tenant IS
    'The tenant that decides whether a video or a saved search of the caller may be shared; without either the caller''s own.';

CREATE FUNCTION cortana.may_allow_sharing(p_tenant_id uuid) RETURNS boolean
LANGUAGE sql STABLE
RETURN api.is_admin() AND may_touch(p_tenant_id);
COMMENT ON FUNCTION cortana.may_allow_sharing IS 'Whether the caller is an administrator of this tenant, or the service.';

CREATE FUNCTION api.sharing(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.ok(jsonb_build_object('tenant_id', t.id, 'may_change', may_allow_sharing(t.id),
                                     'allowed', EXISTS (SELECT FROM sharing_tenants a WHERE a.tenant_id = t.id)))
    FROM share_tenant((p ->> 'video')::uuid, (p ->> 'search')::uuid) AS t (id)
$$;

CREATE FUNCTION api.allow_sharing(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    tenant CONSTANT uuid := p ->> 'id';
BEGIN
    PERFORM api.require_admin();
    IF NOT may_allow_sharing(tenant) THEN
        RETURN api.not_found();
    ELSIF (p ->> 'allowed')::boolean THEN
        INSERT INTO sharing_tenants (tenant_id, allowed_by) VALUES (tenant, own_name()) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM sharing_tenants WHERE tenant_id = tenant;
    END IF;
    RETURN api.done();
END
$$;

CREATE FUNCTION cortana.share_redaction(s shares) RETURNS jsonb
LANGUAGE sql STABLE
RETURN CASE WHEN s.clip_id IS NOT NULL THEN (
    SELECT coalesce(j.payload -> 'original_payload', j.payload) -> 'redact' FROM api.clip_job(s.clip_id::text) AS j) END;
COMMENT ON FUNCTION cortana.share_redaction IS 'What the clip that a link shows covers; null: nothing.';

CREATE FUNCTION cortana.share_title(s shares) RETURNS text
LANGUAGE sql STABLE
RETURN coalesce((SELECT coalesce(j.payload -> 'original_payload', j.payload) ->> 'words' FROM api.clip_job(s.clip_id::text) AS j),
                (SELECT coalesce(redacted_text(n.name, share_redaction(s)), n.name)
                 FROM videos v, LATERAL (SELECT coalesce(nullif(v.title, ''), v.original_name)) AS n (name) WHERE v.id = s.video_id),
                (SELECT q.name FROM saved_searches q WHERE q.id = s.search_id), 'Video');
COMMENT ON FUNCTION cortana.share_title IS 'What the thing that a link shows is called.';

CREATE FUNCTION cortana.share_kind(s shares) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN s.search_id IS NOT NULL THEN 'search' WHEN s.clip_id IS NOT NULL THEN 'clip'
            WHEN s.from_ms IS NOT NULL THEN 'moment' ELSE 'video' END;
COMMENT ON FUNCTION cortana.share_kind IS 'What a link shows.';

CREATE FUNCTION cortana.share_object(s shares) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', s.id, 'kind', share_kind(s), 'title', share_title(s), 'video_id', s.video_id, 'clip_id', s.clip_id,
    'search_id', s.search_id, 'from_ms', s.from_ms, 'to_ms', s.to_ms, 'at_ms', s.at_ms, 'may_download', s.may_download,
    'made_by', s.made_by, 'created_at', s.created_at, 'ends_at', s.ends_at, 'views', s.views, 'seen_at', s.seen_at,
    'state', CASE WHEN s.revoked_at IS NOT NULL THEN 'revoked' WHEN s.ends_at <= now() THEN 'ended'
                  WHEN NOT EXISTS (SELECT FROM sharing_tenants t WHERE t.tenant_id = s.tenant_id) THEN 'off' ELSE 'open' END);
COMMENT ON FUNCTION cortana.share_object IS 'A link as those see it who may revoke it, without its code.';

CREATE FUNCTION api.shares(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (share_object(s), jsonb_build_array(s.created_at, s.id))::api.listed FROM shares s
        WHERE may_touch(s.tenant_id) AND (p ->> 'video' IS NULL OR s.video_id = (p ->> 'video')::uuid)
          AND (keys IS NULL OR (s.created_at, s.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        ORDER BY s.created_at DESC, s.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.share(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 10000;     -- links of a tenant
    kept CONSTANT interval := '30 days';    -- how long a link is listed that works no more
    code CONSTANT text := random_text(16);
    clip CONSTANT jsonb := CASE WHEN p ? 'clip_id' THEN (
        SELECT jsonb_build_object('video_id', j.video_id) || coalesce(j.payload -> 'original_payload', j.payload)
        FROM api.clip_job(p ->> 'clip_id') AS j
        WHERE j.status = 'done' AND j.result ? 'clip_path' AND NOT j.result ? 'removed_at') END;
    video CONSTANT uuid := coalesce(p ->> 'video_id', clip ->> 'video_id');
    videos CONSTANT uuid[] := coalesce(nullif(ARRAY(SELECT DISTINCT c.video_id FROM clip_parts(clip) AS c), '{}'), ARRAY[video]);  -- of a reel
    first CONSTANT int := coalesce(p ->> 'from_ms', clip ->> 't_start');
    last CONSTANT int := coalesce((p ->> 'to_ms')::int, (clip ->> 't_end')::int, (clip ->> 't_start')::int + 1);
    tenant uuid;
    made shares;
BEGIN
    IF num_nonnulls(p ->> 'video_id', p ->> 'clip_id', p ->> 'search_id') <> 1 THEN
        RAISE EXCEPTION 'one of video_id, clip_id and search_id says what is shared' USING ERRCODE = 'invalid_parameter_value';
    ELSIF p ? 'clip_id' AND clip IS NULL THEN
        RETURN api.not_found();
    ELSIF p ?| '{from_ms,to_ms}' AND NOT p ?& '{video_id,from_ms,to_ms}' OR first >= last THEN
        RAISE EXCEPTION 'from_ms and to_ms say together which part of a video is shared: its beginning and its end'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF p ?| '{from_ms,search_id}' AND (p ->> 'may_download')::boolean THEN
        RAISE EXCEPTION 'a part of a video, or a saved search, is no file that can be downloaded: share a clip'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    tenant := share_tenant(video, (p ->> 'search_id')::uuid);
    IF EXISTS (SELECT FROM unnest(videos) AS v (id), share_tenant(v.id, (p ->> 'search_id')::uuid) AS owner
               WHERE NOT EXISTS (SELECT FROM sharing_tenants t WHERE t.tenant_id = owner)) THEN
        RAISE EXCEPTION 'links for people without an account are switched off: an administrator can allow them'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    DELETE FROM shares s WHERE s.tenant_id = tenant AND least(s.ends_at, s.revoked_at) < now() - kept;
    IF (SELECT count(*) FROM shares s WHERE s.tenant_id = tenant) >= most THEN
        RAISE EXCEPTION 'there are % links already: revoke some', most USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO shares (hash, tenant_id, video_id, clip_id, search_id, from_ms, to_ms, at_ms, may_download, made_by, ends_at)
    VALUES (secret_hash(code), tenant, video, (p ->> 'clip_id')::uuid, (p ->> 'search_id')::uuid, first, last,
            least(greatest(coalesce((p ->> 'at_ms')::int, first, 0), coalesce(first, 0)), coalesce(last, 2147483647)),
            coalesce((p ->> 'may_download')::boolean, false), own_name(), now() + (p ->> 'days')::int * interval '1 day')
    RETURNING * INTO made;
    RETURN ROW(201, NULL, NULL, share_object(made) || jsonb_build_object('link', '/s/' || code, 'embed', '/embed/' || code))::api.answer;
END
$$;

CREATE FUNCTION api.revoke_share(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE shares SET revoked_at = now() WHERE id = (p ->> 'id')::uuid AND may_touch(tenant_id) AND revoked_at IS NULL;
    RETURN api.done(FOUND);
END
$$;

-- ---- what a stranger gets ----------------------------------------------------------------------------------
-- These functions ask nothing of the caller. What they return follows from the link's row alone.

CREATE FUNCTION cortana.find_share(p_hash bytea) RETURNS shares
LANGUAGE sql STABLE AS $$
    SELECT s FROM shares s
    WHERE s.hash = p_hash AND s.revoked_at IS NULL AND (s.ends_at IS NULL OR s.ends_at > now())
      AND EXISTS (SELECT FROM sharing_tenants t WHERE t.tenant_id = s.tenant_id)
      AND NOT EXISTS (
          SELECT FROM api.clip_job(s.clip_id::text) AS j, clip_parts(j.payload) AS c LEFT JOIN videos v ON v.id = c.video_id
          WHERE v.id IS NULL OR NOT EXISTS (
              SELECT FROM sharing_tenants t WHERE t.tenant_id = coalesce(v.team_id, v.owner_id, '00000000-0000-0000-0000-000000000000')))
$$;
COMMENT ON FUNCTION cortana.find_share IS 'The link whose code has this digest, while it works; null: there is none.';

CREATE FUNCTION cortana.share_picture(s shares, p_video_id uuid DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN share_redaction(s) IS NOT NULL THEN NULL
           WHEN s.search_id IS NOT NULL THEN (
               SELECT (api.kept_frame(m.video_id, (m.moments #>> '{0,t_start}')::int)).key FROM saved_search_matches m
               WHERE m.search_id = s.search_id AND (p_video_id IS NULL OR m.video_id = p_video_id)
               ORDER BY m.matched_at DESC, m.video_id LIMIT 1)
           WHEN s.from_ms IS NOT NULL THEN (
               SELECT f.key FROM api.kept_frame(s.video_id, s.at_ms) AS f WHERE f.t_start < s.to_ms AND f.t_end > s.from_ms)
           ELSE (SELECT coalesce(CASE WHEN s.at_ms > 0 THEN (api.kept_frame(v.id, s.at_ms)).key END, v.s3_thumb_path)
                 FROM videos v WHERE v.id = s.video_id) END
$$;
COMMENT ON FUNCTION cortana.share_picture IS
    'The key of the picture of a link: of the moment, else the poster; of a saved search that of its newest match, or of the match '
    'in a video. Null: there is none that belongs to what the link shows, or it is a redacted clip.';

CREATE FUNCTION cortana.share_found(s shares) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('video', m.video_id, 'title', coalesce(v.title, v.original_name),
                                                 'matched_at', m.matched_at, 'moments', m.moments) ORDER BY m.matched_at DESC, m.video_id), '[]')
    FROM (SELECT * FROM saved_search_matches a WHERE a.search_id = s.search_id ORDER BY a.matched_at DESC, a.video_id LIMIT 100) AS m
    JOIN videos v ON v.id = m.video_id
$$;
COMMENT ON FUNCTION cortana.share_found IS 'What a shared search has found, the newest 100 videos.';

CREATE FUNCTION cortana.shared_files(s shares) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN s.clip_id IS NOT NULL THEN (
               SELECT jsonb_build_object('grant', g.rights || '{"scopes": ["clip"]}' || jsonb_build_object('id', s.clip_id),
                                         'path', j.result ->> 'clip_path', 'format', c.clip ->> 'format', 'name', c.clip ->> 'name')
               FROM api.clip_job(s.clip_id::text) AS j, api.clip_object(j) AS c (clip)
               WHERE j.result ? 'clip_path' AND NOT j.result ? 'removed_at')
           WHEN s.from_ms IS NOT NULL THEN jsonb_build_object(
               'grant', g.rights || jsonb_build_object('scopes', ARRAY['playback'], 'id', v.id, 'from_ms', s.from_ms, 'to_ms', s.to_ms),
               'playlist', v.s3_proxy_path)
           ELSE jsonb_build_object(
               'grant', g.rights || jsonb_build_object('scopes', ARRAY['playback'] || CASE WHEN s.may_download THEN ARRAY['original'] END, 'id', v.id),
               'playlist', v.s3_proxy_path, 'poster', v.s3_thumb_path,
               'thumbnails', regexp_replace(v.s3_thumb_path, '[^/]*$', 'thumbnails.vtt'), 'name', v.original_name,
               'original', CASE WHEN s.may_download THEN v.s3_original_path END) END
    FROM videos v, (VALUES ('{"is_short": true}'::jsonb)) AS g (rights) WHERE v.id = s.video_id
$$;
COMMENT ON FUNCTION cortana.shared_files IS
    'The files of a link, and the right to read them, which the gateway signs. Of a part of a video neither poster nor pictures of the '
    'seek bar, which show other times.';

CREATE FUNCTION api.open_share(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    s CONSTANT shares := find_share(decode(p ->> 'digest', 'hex'));
    files CONSTANT jsonb := CASE WHEN s.video_id IS NOT NULL THEN shared_files(s) ELSE jsonb_build_object('found', share_found(s)) END;
BEGIN
    IF s.id IS NULL OR files IS NULL THEN
        RETURN api.not_found();
    ELSIF (p ->> 'again')::boolean IS NOT TRUE THEN
        UPDATE shares SET views = views + 1, seen_at = now() WHERE id = s.id;
    END IF;
    RETURN api.ok(jsonb_build_object(
        'kind', share_kind(s), 'title', share_title(s), 'from_ms', s.from_ms, 'to_ms', s.to_ms, 'at_ms', s.at_ms,
        'may_download', s.may_download, 'ends_at', s.ends_at, 'has_picture', share_picture(s) IS NOT NULL)
        || coalesce((SELECT jsonb_build_object('duration_ms', round(v.duration * 1000), 'fps', v.fps, 'resolution', v.resolution,
                                               'platform', v.platform, 'recorded_at', v.recorded_at)
                     FROM videos v WHERE v.id = s.video_id), '{}') || files);
END
$$;

CREATE FUNCTION api.shared_lines(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    s CONSTANT shares := find_share(decode(p ->> 'digest', 'hex'));
BEGIN
    IF s.video_id IS NULL OR s.clip_id IS NOT NULL THEN
        RETURN api.not_found();
    END IF;
    RETURN api.segments(p - 'digest' || jsonb_build_object('id', s.video_id, 'from_ms', s.from_ms, 'to_ms', s.to_ms, 'tracks', true));
END
$$;

CREATE FUNCTION api.shared_picture(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.ok((SELECT jsonb_build_object('object', picture)
                   FROM share_picture(find_share(decode(p ->> 'digest', 'hex')), (p ->> 'video')::uuid) AS picture WHERE picture IS NOT NULL))
$$;

CREATE FUNCTION cortana.page_tag(p_name text, p_value text) RETURNS xml
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN p_name LIKE 'og:%' THEN xmlelement(name meta, xmlattributes(p_name AS property, feed_text(p_value) AS content))
            ELSE xmlelement(name meta, xmlattributes(p_name AS name, feed_text(p_value) AS content)) END;
COMMENT ON FUNCTION cortana.page_tag IS 'What the head of a page says to programs that show a link.';

CREATE FUNCTION api.share_page(p jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    s CONSTANT shares := find_share(secret_hash(p ->> 'code'));
    address CONSTANT text := (p ->> 'site') || '/s/' || (p ->> 'code');
    picture CONSTANT text := (p ->> 'site') || '/api/v1/shared/' || (p ->> 'code') || '/picture';
    text_there text;
BEGIN
    IF s.id IS NULL THEN
        RETURN jsonb_build_object('is_there', false, 'head', '<title>cortana</title>');
    END IF;
    SELECT left(string_agg(l.text, ' · ' ORDER BY l.place, l.id), 300) INTO text_there FROM segments l
    WHERE l.video_id = s.video_id AND l.t_start <= s.at_ms AND l.t_end > s.at_ms AND share_redaction(s) IS NULL;
    RETURN jsonb_build_object('is_there', true, 'head', xmlconcat(
        xmlelement(name title, feed_text(share_title(s)) || ' · cortana'),
        page_tag('og:site_name', 'cortana'), page_tag('og:type', 'video.other'), page_tag('og:title', share_title(s)),
        page_tag('og:url', address), page_tag('twitter:title', share_title(s)),
        CASE WHEN text_there IS NOT NULL THEN page_tag('og:description', text_there) END,
        CASE WHEN share_picture(s) IS NULL THEN page_tag('twitter:card', 'summary')
             ELSE xmlconcat(page_tag('og:image', picture), page_tag('twitter:card', 'summary_large_image'), page_tag('twitter:image', picture)) END,
        xmlelement(name link, xmlattributes('alternate' AS rel, 'application/json+oembed' AS type,
            (p ->> 'site') || '/api/v1/oembed?url=' || replace(replace(address, ':', '%3A'), '/', '%2F') AS href)))::text);
END
$$;
COMMENT ON FUNCTION api.share_page IS
    'The head of the page /s/CODE: what a chat shows of the link, with the picture of the moment. For the gateway, which puts it into the page.';

CREATE FUNCTION api.oembed(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(p ->> 'url', '^(https?://[A-Za-z0-9.:[\]-]+)/(?:s|embed)/([A-Za-z0-9_-]{22})$');
    s CONSTANT shares := find_share(secret_hash(parts[2]));
    picture CONSTANT int[] := regexp_match((SELECT v.resolution FROM videos v WHERE v.id = s.video_id), '^(\d+)x(\d+)$');
    room CONSTANT numeric[] := ARRAY[coalesce((p ->> 'maxwidth')::int, 640), coalesce((p ->> 'maxheight')::int, 4096)];
    scale numeric;
    size int[];
BEGIN
    IF s.id IS NULL THEN
        RETURN api.not_found();
    END IF;
    scale := least(room[1] / greatest(coalesce(picture[1], 640), 1), room[2] / greatest(coalesce(picture[2], 360), 1));
    size := ARRAY[greatest(round(coalesce(picture[1], 640) * scale), 1), greatest(round(coalesce(picture[2], 360) * scale), 1)];
    RETURN api.ok(jsonb_build_object(
        'version', '1.0', 'type', CASE WHEN s.search_id IS NULL THEN 'video' ELSE 'rich' END, 'title', share_title(s),
        'provider_name', 'cortana', 'width', size[1], 'height', size[2],
        'html', format('<iframe src="%s/embed/%s" width="%s" height="%s" allow="fullscreen; picture-in-picture" style="border:0"></iframe>',
                       parts[1], parts[2], size[1], size[2]))
        || CASE WHEN share_picture(s) IS NULL THEN '{}' ELSE jsonb_build_object(
               'thumbnail_url', parts[1] || '/api/v1/shared/' || parts[2] || '/picture', 'thumbnail_width', size[1], 'thumbnail_height', size[2]) END);
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION api.open_share, api.shared_lines, api.shared_picture, api.share_page, api.oembed TO anon;
GRANT EXECUTE ON FUNCTION api.open_share TO authenticated;
