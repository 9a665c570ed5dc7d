-- Search by meaning. Each distinct text (text_hash) is embedded once with each model, whichever videos show it, and
-- stored as a vector of length 1. With pgvector, an index finds near vectors. Without it, the vectors are real[]; they
-- are first compared by the signs of their numbers, and the best ones exactly.

CREATE TABLE embedding_models (
    name text PRIMARY KEY CHECK (name ~ '^[[:alnum:]][[:alnum:]._:/@-]{0,99}$'),
    dimensions int NOT NULL CHECK (dimensions BETWEEN 2 AND 16000),
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE embedding_models IS 'Models whose vectors are stored.';
COMMENT ON COLUMN embedding_models.name IS 'Name of the model, as the endpoint knows it.';
COMMENT ON COLUMN embedding_models.dimensions IS 'Numbers in each of its vectors.';
COMMENT ON COLUMN embedding_models.created_at IS 'When its first vector was stored.';

SELECT secure_table('embedding_models', 'DELETE, SELECT');
CREATE POLICY embedding_models_read ON embedding_models FOR SELECT TO authenticated USING (true);
GRANT SELECT ON embedding_models TO authenticated;

CREATE TABLE cortana.text_embeddings (
    model text NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
    text_hash text NOT NULL,
    signs varbit,
    embedding real[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, text_hash)
);
COMMENT ON TABLE cortana.text_embeddings IS
    'The vector of each text from each model. It depends only on text and model, so that all tenants can share it.';
COMMENT ON COLUMN cortana.text_embeddings.signs IS
    'Signs of the numbers of the vector, one bit each; null if pgvector stores the vector.';
COMMENT ON COLUMN cortana.text_embeddings.embedding IS 'Of length 1; `vector` after use_pgvector().';

SELECT secure_table('text_embeddings', 'DELETE, SELECT');

CREATE FUNCTION cortana.has_pgvector() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT format_type(atttypid, NULL) = 'vector' FROM pg_attribute
    WHERE attrelid = 'cortana.text_embeddings'::regclass AND attname = 'embedding'
$$;
COMMENT ON FUNCTION cortana.has_pgvector IS
    'Returns whether embeddings are stored as vectors of the extension pgvector.';

CREATE FUNCTION cortana.index_embedding_model(p_model text, p_dimensions int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    longest_indexed CONSTANT int := 2000;
    name text := 'text_embeddings_' || substr(md5(p_model), 1, 16);
BEGIN
    IF NOT has_pgvector() OR p_dimensions > longest_indexed
        OR NOT EXISTS (SELECT FROM pg_am WHERE amname = 'hnsw') THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON text_embeddings'
                   ' USING hnsw ((embedding::vector(%s)) vector_ip_ops) WHERE model = %L',
                   name, p_dimensions, p_model);
END
$$;
COMMENT ON FUNCTION cortana.index_embedding_model IS
    'Creates the index of a model''s vectors, before the first of them is stored. Vectors that are too long for '
    'an index are compared one by one.';

CREATE FUNCTION use_pgvector() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    known embedding_models;
BEGIN
    IF has_pgvector() THEN
        RETURN true;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        RETURN false;
    END IF;
    BEGIN
        CREATE EXTENSION IF NOT EXISTS vector SCHEMA extensions;
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN false;
    END;
    ALTER TABLE text_embeddings ALTER COLUMN embedding TYPE vector USING embedding::vector;
    UPDATE text_embeddings SET signs = NULL;
    FOR known IN SELECT * FROM embedding_models LOOP
        PERFORM index_embedding_model(known.name, known.dimensions);
    END LOOP;
    RETURN true;
END
$$;
COMMENT ON FUNCTION use_pgvector IS
    'Stores embeddings as vectors of the extension pgvector, if it is installed. It may be called again at any '
    'time. Returns whether vectors are in use.';

SELECT use_pgvector();

-- ---- writing ------------------------------------------------------------------------------------

CREATE FUNCTION cortana.texts_to_embed(p_video_id uuid, p_model text, p_limit int)
RETURNS TABLE (text_hash text, text text)
LANGUAGE sql STABLE AS $$
    SELECT s.text_hash, min(s.text COLLATE "C")
    FROM segments s
    WHERE s.video_id = p_video_id
      AND NOT EXISTS (SELECT FROM text_embeddings e
                      WHERE e.model = p_model AND e.text_hash = s.text_hash)
    GROUP BY s.text_hash
    ORDER BY s.text_hash
    LIMIT p_limit
$$;
COMMENT ON FUNCTION cortana.texts_to_embed IS
    'Returns the texts of a video that a model has not embedded: one spelling of each, in a fixed order.';

CREATE FUNCTION cortana.store_embeddings(p_model text, p_embeddings jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    given_dimensions int;
    known_dimensions int;
    stored bigint;
BEGIN
    SELECT max(jsonb_array_length(e -> 'embedding')) INTO given_dimensions
    FROM jsonb_array_elements(p_embeddings) AS e;
    IF given_dimensions IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO embedding_models (name, dimensions) VALUES (p_model, given_dimensions)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM index_embedding_model(p_model, given_dimensions);
    END IF;
    SELECT dimensions INTO known_dimensions FROM embedding_models WHERE name = p_model;
    IF EXISTS (SELECT FROM jsonb_array_elements(p_embeddings) AS e
               WHERE jsonb_array_length(e -> 'embedding') <> known_dimensions) THEN
        RAISE EXCEPTION 'model % returned vectors of % numbers, but its earlier vectors have %', p_model,
            given_dimensions, known_dimensions
            USING ERRCODE = 'check_violation',
                  HINT = 'If the model has changed, use a new name for it, or delete it from embedding_models.';
    END IF;
    IF has_pgvector() THEN
        EXECUTE 'INSERT INTO text_embeddings (model, text_hash, embedding)'
                ' SELECT $1, e ->> ''text_hash'', (e ->> ''embedding'')::vector FROM jsonb_array_elements($2) AS e'
                ' ORDER BY e ->> ''text_hash'' ON CONFLICT DO NOTHING'
            USING p_model, p_embeddings;
    ELSE
        INSERT INTO text_embeddings (model, text_hash, signs, embedding)
        SELECT p_model, e ->> 'text_hash', embedding_signs(numbers), numbers
        FROM jsonb_array_elements(p_embeddings) AS e,
             LATERAL (SELECT translate(e ->> 'embedding', '[]', '{}')::real[] AS numbers) AS n
        ORDER BY e ->> 'text_hash'
        ON CONFLICT DO NOTHING;
    END IF;
    GET DIAGNOSTICS stored = ROW_COUNT;
    RETURN stored;
END
$$;
COMMENT ON FUNCTION cortana.store_embeddings IS
    'Stores vectors of length 1: [{"text_hash": …, "embedding": [numbers]}]. Existing vectors are not replaced.';

CREATE FUNCTION cortana.embedding_signs(p_numbers real[]) RETURNS varbit
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT string_agg(CASE WHEN n > 0 THEN '1' ELSE '0' END, '' ORDER BY place)::varbit
   FROM unnest(p_numbers) WITH ORDINALITY AS u (n, place) $$;
COMMENT ON FUNCTION cortana.embedding_signs IS
    'Returns the signs of the numbers of a vector, one bit each: 1 for positive.';

CREATE FUNCTION cortana.embedding_cosine(p_a real[], p_b real[]) RETURNS real
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT sum(a::double precision * b)::real FROM unnest(p_a, p_b) AS u (a, b) $$;
COMMENT ON FUNCTION cortana.embedding_cosine IS
    'Returns the cosine of two vectors of length 1, -1 to 1; the larger, the more alike they are.';

CREATE FUNCTION prune_embeddings() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM text_embeddings e
    WHERE NOT EXISTS (SELECT FROM segments s WHERE s.text_hash = e.text_hash);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END
$$;
COMMENT ON FUNCTION prune_embeddings IS 'Deletes the vectors of texts that no segment contains any more.';

-- ---- searching ----------------------------------------------------------------------------------

CREATE FUNCTION cortana.nearest_texts(p_model text, p_vector real[], p_limit int)
RETURNS TABLE (text_hash text, similarity real)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET jit = off AS $$
DECLARE
    oversampling CONSTANT int := 20;
    indexed_max CONSTANT int := 1000;  -- the largest hnsw.ef_search; more are compared one by one
    length int := cardinality(p_vector);
BEGIN
    IF length IS DISTINCT FROM (SELECT dimensions FROM embedding_models WHERE name = p_model) THEN
        RAISE EXCEPTION 'there are no embeddings of model % with % numbers', p_model, length
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF has_pgvector() THEN
        PERFORM set_config('hnsw.ef_search', least(greatest(p_limit, 40), indexed_max)::text, true)
        FROM pg_am WHERE amname = 'hnsw';
        RETURN QUERY EXECUTE format(
            'SELECT text_hash, -(embedding%1$s <#> $1::vector%1$s)::real FROM text_embeddings'
            ' WHERE model = %2$L ORDER BY embedding%1$s <#> $1::vector%1$s LIMIT $2',
            CASE WHEN p_limit <= indexed_max THEN format('::vector(%s)', length) END, p_model)
            USING p_vector, p_limit;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT near.text_hash, embedding_cosine(near.embedding, p_vector) AS cosine
    FROM (
        SELECT e.text_hash, e.embedding FROM text_embeddings e
        WHERE e.model = p_model
        ORDER BY bit_count(e.signs # embedding_signs(p_vector)), e.text_hash
        LIMIT p_limit * oversampling) AS near
    ORDER BY cosine DESC, near.text_hash
    LIMIT p_limit;
END
$$;
COMMENT ON FUNCTION cortana.nearest_texts IS
    'Returns the texts nearest to a vector of length 1, nearest first. Without pgvector, it selects twenty times '
    'as many texts as wanted by the number of signs that differ, and sorts these by the exact cosine.';

CREATE FUNCTION cortana.semantic_candidates(p_model text, p_vector real[], p_terms search_terms, p_video uuid,
                                    p_limit int)
RETURNS TABLE (segment_id uuid, similarity real)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET jit = off AS $$
DECLARE
    texts_max CONSTANT int := 51200;
    indexed_max CONSTANT int := 1000;  -- up to this number an index is used, which may miss some
    growth CONSTANT int := 8;
    texts int := greatest(p_limit, 100);
    texts_found bigint;
    ids uuid[];
    similarities real[];
BEGIN
    LOOP
        EXECUTE 'WITH near AS MATERIALIZED (SELECT text_hash, similarity FROM nearest_texts($1, $2, $3)),'
                ' hit AS ('
                ' SELECT m.segment_id AS id, found.likeness'
                ' FROM (SELECT s.id AS near_id, near.similarity AS likeness'
                '       FROM near JOIN segments s USING (text_hash)) AS found'
                ' JOIN search_materialized AS m ON m.segment_id = found.near_id'
                ' WHERE ($4 IS NULL OR m.video_id = $4)'
                || CASE WHEN search_sees_all() THEN ''
                        ELSE ' AND (m.owner_id = $6 OR m.team_id = ANY ($7))' END
                || search_field_conditions(p_terms) ||
                ' ORDER BY found.likeness DESC, m.confidence DESC, m.video_id, m.t_start, m.segment_id'
                ' LIMIT $5)'
                ' SELECT (SELECT count(*) FROM near), array_agg(id), array_agg(likeness) FROM hit'
        INTO texts_found, ids, similarities
        USING p_model, p_vector, texts, p_video, p_limit, auth.uid(), current_team_ids();
        EXIT WHEN cardinality(ids) >= p_limit OR texts_found < texts AND texts > indexed_max
            OR texts >= texts_max;
        texts := least(texts * growth, texts_max);
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(ids, similarities);
END
$$;
COMMENT ON FUNCTION cortana.semantic_candidates IS
    'Returns segments with the texts nearest to a vector. It bypasses the policies of row-level security and '
    'applies the same rule itself, because the nearest texts may all belong to others; it reads more texts until '
    'enough segments may be seen.';

CREATE FUNCTION search_semantic(
    vector real[], model text, filter text DEFAULT NULL, video uuid DEFAULT NULL,
    max_results int DEFAULT 50)
RETURNS TABLE (segment_id uuid, video_id uuid, text text, snippet text, t_start int, t_end int,
               bounding_box jsonb, confidence real, language text, rank real, match_kind text)
LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    terms search_terms := search_parse(coalesce(filter, ''));
    wanted int := least(greatest(coalesce(max_results, 50), 0), 1000);
BEGIN
    IF terms.no_field IS NOT NULL THEN
        PERFORM search_refuse_field(terms.no_field);
    END IF;
    IF terms.sides IS NOT NULL THEN
        PERFORM search_refuse('a filter has fields alone: write lang:deu, tag:, after: or before:');
    END IF;
    RETURN QUERY
    SELECT m.segment_id, m.video_id, m.text, m.text, m.t_start, m.t_end, m.bounding_box, m.confidence,
           m.language, near.similarity, 'meaning'
    FROM semantic_candidates(model, vector, terms, video, wanted) AS near
    JOIN search_materialized m USING (segment_id)
    ORDER BY near.similarity DESC, m.confidence DESC, m.video_id, m.t_start, m.segment_id;
END
$$;
COMMENT ON FUNCTION search_semantic IS
    'Searches by meaning: returns the segments whose text is nearest to a vector of length 1 from the given '
    'model, nearest first. The filter is a query that consists only of the fields of search_segments().';

-- ---- the stage ----------------------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, is_public, cpu_weight, payload_defaults,
                       payload_schema) VALUES
    ('embed', 'texts to vectors, for search by meaning', 3, '1 hour', false, 1, '{"video_id": "{{video.id}}"}',
     '{"required": ["video_id"], "properties": {
         "video_id": {"type": "string", "format": "uuid"},
         "model": {"type": "string", "minLength": 1, "maxLength": 100}}}');

CREATE FUNCTION embed_videos_with(p_model text) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    current workflows;
    steps jsonb;
BEGIN
    SELECT * INTO STRICT current FROM workflows WHERE name = 'video_pipeline' AND is_active;
    SELECT jsonb_agg(step ORDER BY place) INTO steps
    FROM jsonb_array_elements(current.steps) WITH ORDINALITY AS s (step, place)
    WHERE step ->> 'job_type' <> 'embed';
    IF p_model IS NOT NULL THEN
        steps := steps || jsonb_build_object('key', 'embed', 'job_type', 'embed',
            'depends_on', jsonb_build_array('segment_index'),
            'params', jsonb_build_object('model', p_model));
    END IF;
    UPDATE job_types SET payload_defaults = jsonb_strip_nulls(payload_defaults || jsonb_build_object('model', p_model))
    WHERE name = 'embed';
    RETURN change_workflow(current.name, steps);
END
$$;
COMMENT ON FUNCTION embed_videos_with IS
    'Makes the pipeline embed the text of videos with this model, beginning with the next run; null: the pipeline '
    'stops embedding. Returns the version of the workflow.';

CREATE FUNCTION embedding_model_in_use() RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT step #>> '{params,model}'
    FROM workflows w, jsonb_array_elements(w.steps) AS step
    WHERE w.name = 'video_pipeline' AND w.is_active AND step ->> 'job_type' = 'embed'
$$;
COMMENT ON FUNCTION embedding_model_in_use IS
    'Returns the model with which the pipeline embeds texts; null: it embeds none.';

CREATE FUNCTION embed_videos(p_model text DEFAULT NULL, p_video_id uuid DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    with_model text := coalesce(p_model, embedding_model_in_use());
    jobs_to_do bigint;
BEGIN
    IF with_model IS NULL THEN
        RAISE EXCEPTION 'no model is in use' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Name a model, or call embed_videos_with(model) first.';
    END IF;
    SELECT count(*) INTO jobs_to_do
    FROM videos v, enqueue_job('embed', jsonb_build_object('video_id', v.id, 'model', with_model), v.id,
                               p_dedupe_key => 'embed:' || with_model || ':' || v.id)
    WHERE v.id = coalesce(p_video_id, v.id)
      AND EXISTS (SELECT FROM texts_to_embed(v.id, with_model, 1));
    RETURN jobs_to_do;
END
$$;
COMMENT ON FUNCTION embed_videos IS
    'Enqueues jobs that embed the texts of one video, or of all videos with texts that the model has not embedded.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.semantic_candidates, search_semantic, embedding_model_in_use TO authenticated;
