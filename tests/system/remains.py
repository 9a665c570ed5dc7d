"""What a pipeline has left of a video, to compare one run with another: without what is named by the video's id."""

import re


def rows(query, video):
    """By kind. `query(statement, *parameters)` gives rows."""
    return {
        "video": query("SELECT status::text, resolution, fps, duration FROM videos WHERE id = %s", video),
        "segments": query("SELECT text, text_hash, language, confidence, t_start, t_end, bounding_box::text"
                          " FROM segments WHERE video_id = %s ORDER BY t_start, t_end, text, 7", video),
        "entities": query("SELECT s.text, s.t_start, entity_type, value, e.normalized_value FROM entities e"
                          " JOIN segments s ON s.id = segment_id WHERE video_id = %s ORDER BY 1, 2, 3, 4", video),
        "search": query("SELECT text FROM search_materialized WHERE video_id = %s ORDER BY 1", video),
    }


def objects(store, video):
    """Checksums of its objects but the original, by key; of lists only that they are there, for they name the video.
    `store` is a StoreClient."""
    keys = [key for key in store.keys() if video in key and "/original/" not in key]
    return {re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", key): "a list" if key.endswith(".json") else store.get(key=key)["sha256"]
            for key in keys}
