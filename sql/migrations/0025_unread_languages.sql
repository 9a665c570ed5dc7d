-- Lines in languages of Latin letters that no model has read are counted beside those in other scripts.

COMMENT ON TABLE unread_lines IS 'How many lines of a video are in a script or a language for which no model was loaded.';
COMMENT ON COLUMN unread_lines.script IS
    'Name of Tesseract''s model that would read the lines. Of a script: Cyrillic, Arabic, Greek, Hebrew, Devanagari, '
    'Bengali, Tamil or Japanese; other scripts are not named. Of a language of Latin letters: spa.';
COMMENT ON COLUMN unread_lines.lines IS 'How many of the examined lines of this part of the video are in the script or language.';
COMMENT ON FUNCTION cortana.unread_scripts IS
    'The scripts and languages of the given videos for which no model was loaded, as one row: [{"script", "lines"}], '
    'the one with the most lines first.';
