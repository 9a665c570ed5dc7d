-- How people order their videos: titles, tags and other words of their own, collections, favourites, and changes of many
-- videos at once. The tables are in 0002_videos.sql, the lists and the search that read them in 0017_api.sql and
-- 0009_search.sql.

-- ---- words of their own ------------------------------------------------------------------------------------

CREATE FUNCTION cortana.change_own_video(p_id uuid, p jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM require_own_video(p_id);
    UPDATE videos v SET
        title = CASE WHEN p ? 'title' THEN nullif(btrim(p ->> 'title'), '') ELSE v.title END,
        description = CASE WHEN p ? 'description' THEN nullif(btrim(p ->> 'description'), '') ELSE v.description END,
        recorded_at = CASE WHEN p ? 'recorded_at' THEN (p ->> 'recorded_at')::timestamptz ELSE v.recorded_at END,
        recorded_from = CASE WHEN p ? 'recorded_at' THEN 'person' ELSE v.recorded_from END,
        fields = jsonb_strip_nulls(v.fields || coalesce(p -> 'fields', '{}')),
        tags = ARRAY(SELECT t.tag FROM unnest(clean_tags(api.texts(p, 'add_tags')
                                              || CASE WHEN p ? 'tags' THEN api.texts(p, 'tags') ELSE v.tags END))
                     WITH ORDINALITY AS t (tag, n)
                     WHERE normal_form(t.tag) <> ALL (tag_keys(clean_tags(api.texts(p, 'remove_tags')))) ORDER BY t.n)
    WHERE v.id = p_id;
EXCEPTION WHEN check_violation THEN
    RAISE EXCEPTION 'a video has at most 50 tags, and 16,384 characters of fields' USING ERRCODE = 'invalid_parameter_value';
END
$$;
COMMENT ON FUNCTION cortana.change_own_video IS
    'Changes the members of p of a video of the caller: title, description, recorded_at, fields (merged; null removes one), '
    'tags, and add_tags and remove_tags.';

CREATE FUNCTION api.texts(p jsonb, p_member text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(coalesce(nullif(p -> p_member, 'null'), '[]')) AS e WHERE jsonb_typeof(e) <> 'string') THEN
        RAISE EXCEPTION '% must be a list of texts', p_member USING ERRCODE = 'invalid_parameter_value', COLUMN = p_member;
    END IF;
    RETURN ARRAY(SELECT jsonb_array_elements_text(coalesce(nullif(p -> p_member, 'null'), '[]')));
END
$$;
COMMENT ON FUNCTION api.texts IS 'The texts of a list among the parameters; an empty one if it is not given.';

CREATE FUNCTION api.ids(p jsonb, p_member text) RETURNS uuid[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN api.texts(p, p_member)::uuid[];
EXCEPTION WHEN invalid_text_representation THEN
    RAISE EXCEPTION '% must be a list of ids', p_member USING ERRCODE = 'invalid_parameter_value', COLUMN = p_member;
END
$$;
COMMENT ON FUNCTION api.ids IS 'The ids of a list among the parameters; an empty one if it is not given.';

CREATE FUNCTION api.change_video(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT change_own_video((p ->> 'id')::uuid, p);
    SELECT api.video(p);     -- a statement of its own, which sees the change
$$;

CREATE FUNCTION cortana.mark_favourite(p_id uuid, p_is_favourite boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    caller CONSTANT uuid := coalesce(auth.uid(), '00000000-0000-0000-0000-000000000000');
BEGIN
    IF NOT EXISTS (SELECT FROM videos v WHERE v.id = p_id AND (may_touch(v.owner_id) OR may_touch(v.team_id) OR api.is_service())) THEN
        PERFORM api.not_found();
    ELSIF p_is_favourite THEN
        INSERT INTO favourites (user_id, video_id) VALUES (caller, p_id) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM favourites f WHERE f.user_id = caller AND f.video_id = p_id;
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.mark_favourite IS 'Marks a video that the caller may see as a favourite of theirs, or not.';

CREATE FUNCTION api.mark_video(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.done() FROM mark_favourite((p ->> 'id')::uuid, true));

CREATE FUNCTION api.unmark_video(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.done() FROM mark_favourite((p ->> 'id')::uuid, false));

CREATE FUNCTION api.video_facets(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    WITH own AS MATERIALIZED (
        SELECT v.id, v.status, v.tags, v.recorded_at
        FROM api.newest_videos(p, 'infinity', '00000000-0000-0000-0000-000000000000', 10000) AS v)
    SELECT api.ok(jsonb_build_object(
        'videos', (SELECT count(*) FROM own),
        'favourite', (SELECT count(*) FROM own WHERE is_favourite(id)),
        'status', (SELECT coalesce(jsonb_object_agg(f.status, f.n), '{}') FROM (SELECT status, count(*) AS n FROM own GROUP BY 1) AS f),
        'recorded', (SELECT coalesce(jsonb_object_agg(f.year, f.n), '{}')
                     FROM (SELECT to_char(recorded_at, 'YYYY') AS year, count(*) AS n FROM own WHERE recorded_at IS NOT NULL GROUP BY 1) AS f),
        'tag', (SELECT coalesce(jsonb_object_agg(f.tag, f.n), '{}')
                FROM (SELECT min(tag) AS tag, count(*) AS n FROM own, unnest(tags) AS tag
                      GROUP BY normal_form(tag) ORDER BY 2 DESC, 1 LIMIT 200) AS f),
        'collection', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'name', f.name, 'count', f.n) ORDER BY f.name, f.id), '[]')
                       FROM (SELECT c.id, c.name, count(*) AS n FROM collections c JOIN collection_videos i ON i.collection_id = c.id
                             JOIN own ON own.id = i.video_id GROUP BY c.id ORDER BY 3 DESC, 2 LIMIT 200) AS f)))
$$;

-- ---- collections -------------------------------------------------------------------------------------------

CREATE FUNCTION api.collection_object(c collections) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', c.id, 'name', c.name, 'description', c.description, 'owner_id', c.owner_id, 'team_id', c.team_id,
    'videos', (SELECT count(*) FROM collection_videos i WHERE i.collection_id = c.id),
    'poster_url', (SELECT '/api/v1/videos/' || v.id || '/poster' FROM collection_videos i JOIN videos v ON v.id = i.video_id
                   WHERE i.collection_id = c.id AND v.s3_thumb_path IS NOT NULL ORDER BY i.place, i.video_id LIMIT 1),
    'created_at', c.created_at, 'updated_at', c.updated_at);
COMMENT ON FUNCTION api.collection_object IS 'A collection as the API shows it, with the poster of its first video.';

CREATE FUNCTION api.collections(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.collection_object(c), jsonb_build_array(lower(c.name), c.id))::api.listed FROM collections c
        WHERE (keys IS NULL OR (lower(c.name), c.id) > (keys ->> 0, (keys ->> 1)::uuid))
          AND (p ->> 'video' IS NULL OR EXISTS (SELECT FROM collection_videos i
                                                WHERE i.collection_id = c.id AND i.video_id = (p ->> 'video')::uuid))
        ORDER BY lower(c.name), c.id LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.collection(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.versioned((SELECT api.collection_object(c) FROM collections c WHERE c.id = (p ->> 'id')::uuid));

CREATE FUNCTION cortana.require_own_collection(p_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM FROM collections c
    WHERE c.id = p_id AND (api.is_service() OR may_touch(c.owner_id) OR may_touch(c.team_id)) FOR UPDATE;
    PERFORM api.require_found(FOUND);
END
$$;
COMMENT ON FUNCTION cortana.require_own_collection IS
    'Refuses a collection that the caller may not change, and locks it until the end of the transaction.';

CREATE FUNCTION cortana.arrange(p_id uuid, p_add uuid[], p_remove uuid[], p_before uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 10000;     -- videos of a collection, which are numbered anew by each change
    added CONSTANT uuid[] := ARRAY(SELECT id FROM unnest(p_add) WITH ORDINALITY AS a (id, n) GROUP BY id ORDER BY min(n));
    kept uuid[];
    at int;
BEGIN
    PERFORM require_own_collection(p_id);
    IF EXISTS (SELECT FROM unnest(added) AS a (id) WHERE NOT EXISTS (
                   SELECT FROM videos v WHERE v.id = a.id AND (api.is_service() OR may_touch(v.owner_id) OR may_touch(v.team_id)))) THEN
        RAISE EXCEPTION 'add names a video that does not exist, or that you may not see' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    kept := ARRAY(SELECT i.video_id FROM collection_videos i WHERE i.collection_id = p_id AND i.video_id <> ALL (added || p_remove)
                  ORDER BY i.place, i.video_id);
    at := coalesce(array_position(kept, p_before), cardinality(kept) + 1);
    kept := kept[:at - 1] || added || kept[at:];
    IF cardinality(kept) > most THEN
        RAISE EXCEPTION 'a collection has at most % videos', most USING ERRCODE = 'invalid_parameter_value';
    END IF;
    DELETE FROM collection_videos i WHERE i.collection_id = p_id AND i.video_id <> ALL (kept);
    INSERT INTO collection_videos AS i (collection_id, video_id, place)
    SELECT p_id, k.id, k.n FROM unnest(kept) WITH ORDINALITY AS k (id, n)
    ON CONFLICT (collection_id, video_id) DO UPDATE SET place = excluded.place WHERE i.place <> excluded.place;
    UPDATE collections c SET updated_at = now() WHERE c.id = p_id;
END
$$;
COMMENT ON FUNCTION cortana.arrange IS
    'Puts videos into a collection of the caller, before one of its videos or (null) at its end, where they may have been '
    'before at another place; and takes videos out.';

CREATE FUNCTION cortana.make_collection(p jsonb) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    made uuid;
BEGIN
    IF p ->> 'team_id' IS NOT NULL AND NOT (api.is_service() OR (p ->> 'team_id')::uuid = ANY (current_team_ids())) THEN
        RAISE EXCEPTION 'you are not a member of this team' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO collections (owner_id, team_id, name, description)
    VALUES (auth.uid(), (p ->> 'team_id')::uuid, btrim(p ->> 'name'), p ->> 'description') RETURNING id INTO made;
    PERFORM arrange(made, api.ids(p, 'videos'), '{}', NULL);
    RETURN made;
END
$$;
COMMENT ON FUNCTION cortana.make_collection IS 'Makes a collection of the caller, or of a team of theirs.';

CREATE FUNCTION cortana.change_own_collection(p_id uuid, p jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT require_own_collection(p_id);
    UPDATE collections c SET name = coalesce(btrim(p ->> 'name'), c.name), updated_at = now(),
        description = CASE WHEN p ? 'description' THEN nullif(p ->> 'description', '') ELSE c.description END
    WHERE c.id = p_id;
$$;
COMMENT ON FUNCTION cortana.change_own_collection IS 'Changes the name or the description of a collection of the caller.';

CREATE FUNCTION api.create_collection(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    made uuid;
    answer api.answer;
BEGIN
    made := make_collection(p);
    SELECT * INTO answer FROM api.collection(jsonb_build_object('id', made));
    answer.status := 201;
    answer.headers := jsonb_build_object('Location', '/api/v1/collections/' || made);
    RETURN answer;
END
$$;

CREATE FUNCTION api.change_collection(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT change_own_collection((p ->> 'id')::uuid, p);
    SELECT api.collection(p);
$$;

CREATE FUNCTION api.delete_collection(p jsonb) RETURNS api.answer
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT require_own_collection((p ->> 'id')::uuid);
    DELETE FROM collections c WHERE c.id = (p ->> 'id')::uuid;
    SELECT api.done();
$$;

CREATE FUNCTION api.arrange_collection(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT arrange((p ->> 'id')::uuid, api.ids(p, 'add'), api.ids(p, 'remove'), (p ->> 'before')::uuid);
    SELECT api.collection(p);
$$;

-- ---- many videos at once -----------------------------------------------------------------------------------

CREATE FUNCTION api.change_videos(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT int := 500;
    ids CONSTANT uuid[] := api.ids(p, 'ids');
    one uuid;
    collected uuid[] := '{}';
    changed int := 0;
    failed jsonb := '[]';
BEGIN
    IF cardinality(ids) NOT BETWEEN 1 AND most THEN
        RAISE EXCEPTION 'ids must name 1 to % videos', most USING ERRCODE = 'invalid_parameter_value', COLUMN = 'ids';
    END IF;
    FOREACH one IN ARRAY ids LOOP
        BEGIN
            IF p ?| '{add_tags,remove_tags,recorded_at,fields}' THEN
                PERFORM change_own_video(one, p - '{title,description,tags}'::text[]);
            END IF;
            IF p ? 'favourite' THEN
                PERFORM mark_favourite(one, (p ->> 'favourite')::boolean);
            END IF;
            IF p ? 'collection' THEN
                PERFORM api.require_video(one);
                collected := collected || one;
            END IF;
            CASE p ->> 'action'
            WHEN 'delete' THEN PERFORM api.delete_video(jsonb_build_object('id', one));
            WHEN 'reprocess' THEN PERFORM api.reprocess_video(jsonb_build_object('id', one));
            WHEN 'reindex' THEN PERFORM api.reindex_video(jsonb_build_object('id', one));
            ELSE NULL;
            END CASE;
            changed := changed + 1;
        EXCEPTION WHEN no_data_found OR insufficient_privilege OR object_not_in_prerequisite_state OR invalid_parameter_value THEN
            failed := failed || jsonb_build_object('id', one, 'detail', SQLERRM);
        END;
    END LOOP;
    IF cardinality(collected) > 0 THEN
        PERFORM arrange((p ->> 'collection')::uuid, collected, '{}', NULL);
    END IF;
    RETURN api.ok(jsonb_build_object('changed', changed, 'failed', failed));
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION api.mark_video, api.unmark_video, cortana.mark_favourite TO authenticated;
GRANT EXECUTE ON FUNCTION cortana.change_own_video, cortana.require_own_collection, cortana.arrange,
    cortana.make_collection, cortana.change_own_collection TO cortana_app;
