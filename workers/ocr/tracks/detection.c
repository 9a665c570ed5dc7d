#include "workers/ocr/tracks/detection.h"

#include "workers/ocr/tracks/accept.h"

double ocr_row_judge(const struct ocr_row *row, int width, double least, struct ocr_kept_row *kept)
{
    struct ocr_standing standing = {kept->t_end - kept->t_start, width, kept->is_cut};
    double acceptance = ocr_acceptance(row, &standing);

    bool stands = row->weight != OCR_WEIGHT_NONE && acceptance >= least;
    kept->refusal = stands ? NULL : ocr_refusal(row, &standing);
    return acceptance;
}

json_t *ocr_detection_json(const struct ocr_row *row, const struct ocr_kept_row *kept)
{
    struct cv_box end = {kept->end_x, kept->end_y, kept->box.width, kept->box.height};
    double confidence = (double)(int64_t)(row->confidence * 10000 + 0.5) / 10000;
    bool moved = end.x != kept->box.x || end.y != kept->box.y;
    json_t *json = json_pack("{s:s, s:f, s:s, s:o, s:I, s:I, s:I, s:O*, s:O*}", "text", row->text,
                             "confidence", confidence, "language", row->language, "bounding_box",
                             cv_box_json(&kept->box), "t_start", (json_int_t)kept->t_start, "t_end",
                             (json_int_t)kept->t_end, "line", (json_int_t)row->line, "words",
                             row->words, "track", kept->path);

    if (json && moved && json_object_set_new(json, "end_box", cv_box_json(&end)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

json_t *ocr_evidence_json(const struct ocr_row *row, int width, const struct ocr_kept_row *kept,
                          double acceptance)
{
    struct ocr_standing standing = {kept->t_end - kept->t_start, width, kept->is_cut};
    double features[OCR_FEATURE_COUNT];
    json_t *values = json_object();

    ocr_features_of(row, &standing, features);
    for (int i = 0; i < OCR_FEATURE_COUNT; i++) {
        if (json_object_set_new(values, ocr_feature_name((enum ocr_feature)i),
                                json_real(features[i])) != 0) {
            json_decref(values);
            return NULL;
        }
    }
    return json_pack("{s:I, s:s, s:o, s:I, s:I, s:f, s:s?, s:o}", "id", (json_int_t)row->id, "text",
                     row->text, "bounding_box", cv_box_json(&kept->box), "t_start",
                     (json_int_t)kept->t_start, "t_end", (json_int_t)kept->t_end, "acceptance",
                     acceptance, "refusal", kept->refusal, "features", values);
}
