-- Recordings of the same thing: which videos of the caller show the same lines as a video.
--
-- The lines of a video are a set. Of 64 hash functions the least value over the set is kept (MinHash): two videos agree in
-- each with the probability that a line of either is in both. Two such values make a band; videos that share a band are
-- candidates, found by an index, and are then compared line by line. With half of the lines in common, candidates are
-- missed once in 10,000; with a twentieth (the words of the same application), one in 13 is compared in vain.

CREATE TABLE cortana.video_bands (
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    band bigint NOT NULL,
    PRIMARY KEY (band, video_id)
);
CREATE INDEX video_bands_video ON cortana.video_bands (video_id);
COMMENT ON TABLE cortana.video_bands IS 'By what videos with the same lines are found: 32 numbers of each video that has enough lines.';
COMMENT ON COLUMN cortana.video_bands.video_id IS 'The video.';
COMMENT ON COLUMN cortana.video_bands.band IS 'Hash of its place and of two least values.';
SELECT secure_table('video_bands');
CREATE POLICY video_bands_read ON cortana.video_bands FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM videos v WHERE v.id = video_id));
GRANT SELECT ON cortana.video_bands TO authenticated;

CREATE FUNCTION cortana.telling_lines(p_video_id uuid) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT hashtextextended(line, 0)
    FROM search_materialized m, replace(m.folded, ' ', '') AS line
    WHERE m.video_id = p_video_id AND m.line_source = 'screen' AND length(line) >= 8
$$;
COMMENT ON FUNCTION cortana.telling_lines IS
    'Hashes of the different lines on screen in a video, without what OCR confuses and without blanks. Lines of less than eight '
    'characters, such as buttons, times and counts, are in every recording of an application.';

CREATE FUNCTION cortana.record_video_bands(p_video_id uuid) RETURNS void
LANGUAGE sql AS $$
    WITH lines AS MATERIALIZED (
        SELECT line FROM telling_lines(p_video_id) AS line
    ), least AS (
        SELECT n, min(hashint8extended(line, n)) AS value FROM lines, generate_series(0, 63) AS n
        WHERE (SELECT count(*) FROM lines) >= 8     -- as alike_videos() asks
        GROUP BY n
    ), bands AS MATERIALIZED (
        SELECT hashtextextended(string_agg(value::text, ' ' ORDER BY n), n / 2) AS band FROM least GROUP BY n / 2
    ), gone AS (
        DELETE FROM video_bands b WHERE b.video_id = p_video_id AND b.band NOT IN (SELECT band FROM bands)
    )
    INSERT INTO video_bands (video_id, band) SELECT p_video_id, band FROM bands ORDER BY band ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION cortana.record_video_bands IS 'Renews the bands of a video from its searchable lines.';

CREATE FUNCTION cortana.alike_videos(p_video_id uuid) RETURNS TABLE (video_id uuid, shared_lines bigint, share real)
LANGUAGE sql STABLE AS $$
    WITH candidates AS MATERIALIZED (
        SELECT o.video_id FROM video_bands b JOIN video_bands o USING (band)
        WHERE b.video_id = p_video_id AND o.video_id <> p_video_id
        GROUP BY o.video_id ORDER BY count(*) DESC, o.video_id LIMIT 20
    ), own AS MATERIALIZED (
        SELECT line FROM telling_lines(p_video_id) AS line
    ), compared AS (
        SELECT c.video_id, count(own.line) AS shared, least(count(*), (SELECT count(*) FROM own)) AS fewer
        FROM candidates c CROSS JOIN LATERAL telling_lines(c.video_id) AS other (line) LEFT JOIN own USING (line)
        GROUP BY c.video_id
    )
    SELECT c.video_id, c.shared, (c.shared::float8 / c.fewer)::real FROM compared c
    WHERE c.shared >= 8 AND c.shared * 2 >= c.fewer
    ORDER BY 3 DESC, 2 DESC, 1
$$;
COMMENT ON FUNCTION cortana.alike_videos IS
    'The videos that the caller may see, at most 20, that show the same as this one: eight or more lines are in both, and they '
    'are half or more of the lines of the video that has fewer (share). A short part of a long video is not found.';

CREATE FUNCTION api.alike(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.require_video((p ->> 'id')::uuid);
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object(
                   'video', jsonb_build_object('id', v.id, 'title', coalesce(v.title, v.original_name),
                                               'duration_ms', round(v.duration * 1000), 'created_at', v.created_at),
                   'shared_lines', a.shared_lines, 'share', a.share) ORDER BY a.share DESC, a.shared_lines DESC, v.id)
        FROM alike_videos((p ->> 'id')::uuid) AS a JOIN videos v ON v.id = a.video_id));
$$;

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.telling_lines, cortana.alike_videos TO authenticated;
