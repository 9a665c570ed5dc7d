-- Mail: invitations, links for a new password, and what saved searches have found. A mail is a job that names what it
-- is about; what it says is asked when it is sent. So whoever sees jobs sees no link that lets somebody in, and a mail
-- whose reason is gone by then is not sent.

INSERT INTO job_types (name, description, base_priority, time_limit, retry_delays) VALUES
    ('mail', 'a mail, handed to the server of SMTP_URL', 8, '2 minutes',
     '{1 minute,5 minutes,15 minutes,1 hour,4 hours,12 hours}');

CREATE FUNCTION cortana.mail_is_sent() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM workers WHERE 'mail' = ANY (job_types) AND state <> 'stopped'
                                         AND last_seen > now() - interval '15 minutes')
$$;
COMMENT ON FUNCTION cortana.mail_is_sent IS
    'Whether this installation sends mail: a mail-worker runs, which starts only where SMTP_URL is set.';

CREATE FUNCTION cortana.require_mail() RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT mail_is_sent() THEN
        RAISE EXCEPTION 'this server sends no mail: ask whoever runs it' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.require_mail IS 'Refuses what needs mail where none is sent.';

CREATE FUNCTION cortana.enqueue_mail(p_payload jsonb, p_tenant_id uuid DEFAULT NULL, p_at timestamptz DEFAULT NULL,
                                     p_dedupe_key text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO jobs (job_type, payload, tenant_id, priority, scheduled_for, dedupe_key)
    SELECT name, p_payload, p_tenant_id, base_priority, p_at, p_dedupe_key FROM job_types WHERE name = 'mail'
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION cortana.enqueue_mail IS
    'Enqueues a mail: {"invitation_id"} or {"search_id"}. Not by enqueue_job(), because that checks the rights of the caller.';

CREATE FUNCTION cortana.mail_line(p_text text, p_path text DEFAULT NULL, p_is_title boolean DEFAULT NULL) RETURNS jsonb
LANGUAGE sql IMMUTABLE
RETURN jsonb_strip_nulls(jsonb_build_object('text', p_text, 'path', p_path, 'is_title', p_is_title));
COMMENT ON FUNCTION cortana.mail_line IS 'A line of a mail: a text, and where on the page it leads to.';

CREATE FUNCTION cortana.invitation_mail(i invitations) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('to', i.email, 'subject', subject, 'lines', jsonb_build_array(
               mail_line(subject || '.'),
               mail_line(CASE WHEN i.role IS NULL THEN 'Set the password' ELSE 'Accept the invitation' END, '/invitation#c=' || i.code),
               mail_line('The link works once, until ' || to_char(i.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC.'),
               mail_line(CASE WHEN i.role IS NULL THEN 'If you have not asked for it, do nothing: your password stays as it is.'
                              ELSE 'If you know nothing of it, do nothing.' END)))
    FROM (SELECT CASE WHEN i.role IS NULL THEN 'A new password for ' || i.email
                      WHEN auth_name.name IS NULL THEN 'You are invited to ' || t.name
                      ELSE auth_name.name || ' invites you to ' || t.name END AS subject
          FROM (SELECT nullif(i.created_by, 'service') AS name) AS auth_name
          LEFT JOIN tenants t ON t.id = i.tenant_id) AS s
    WHERE i.code IS NOT NULL AND i.expires_at > now()
$$;
COMMENT ON FUNCTION cortana.invitation_mail IS 'The mail with the link of an invitation; null: it was sent, or works no more.';

CREATE FUNCTION cortana.alert_mail(s saved_searches) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH found AS (
        SELECT m.video_id, m.moments, coalesce(v.title, v.original_name, v.id::text) AS title, '/videos/' || v.id AS path,
               row_number() OVER (ORDER BY m.matched_at, m.video_id) AS n
        FROM saved_search_matches m JOIN videos v ON v.id = m.video_id
        WHERE m.search_id = s.id AND m.is_to_mail ORDER BY n LIMIT 500),
    lines AS (
        SELECT n, 0 AS place, mail_line(title, path, true) AS line FROM found WHERE n <= 50
        UNION ALL
        SELECT n, place, mail_line(feed_clock((l ->> 't_start')::int) || ' ' || (l ->> 'text'),
                                   path || '?t=' || round((l ->> 't_start')::int / 1000.0, 3))
        FROM found, jsonb_array_elements(moments) WITH ORDINALITY AS o (l, place) WHERE n <= 50 AND place <= 5
        UNION ALL
        SELECT 51, 0, mail_line('and ' || count(*) - 50 || ' more videos', '/alerts') FROM found HAVING count(*) > 50
        UNION ALL
        SELECT 52, 0, mail_line('All alerts, and how often they are mailed', '/alerts')
        UNION ALL
        SELECT 53, 0, mail_line('No more mail about this search', '/unsubscribe#c=' || s.mail_key))
    SELECT jsonb_build_object(
        'to', p.email, 'subject', s.name || ': ' || CASE (SELECT count(*) FROM found) WHEN 1 THEN (SELECT title FROM found)
                                                    ELSE (SELECT count(*) FROM found) || ' videos' END,
        'unsubscribe', '/api/v1/unsubscribe/' || s.mail_key,
        'lines', (SELECT jsonb_agg(line ORDER BY n, place) FROM lines), 'videos', (SELECT jsonb_agg(video_id) FROM found))
    FROM people p
    WHERE p.id = s.owner_id AND p.disabled_at IS NULL AND s.mail <> 'never' AND EXISTS (SELECT FROM found)
      AND (s.tenant_id = p.id OR EXISTS (SELECT FROM members m WHERE m.person_id = p.id AND m.tenant_id = s.tenant_id))
$$;
COMMENT ON FUNCTION cortana.alert_mail IS
    'The mail with what a saved search has found since the last one; null: nothing, or nobody who may know of it. At most 50 '
    'videos with five lines each.';

CREATE FUNCTION cortana.mail_alerts(s saved_searches, p_video_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    -- What is found in the last minute of an hour may be there too late for its mail.
    soon CONSTANT timestamptz := clock_timestamp() + interval '1 minute';
    due CONSTANT timestamptz := CASE s.mail WHEN 'hourly' THEN date_trunc('hour', soon) + interval '1 hour'
                                            WHEN 'daily' THEN date_trunc('day', soon - interval '6 hours') + interval '30 hours' END;
BEGIN
    IF s.mail <> 'never' THEN
        PERFORM enqueue_mail(jsonb_build_object('search_id', s.id), s.tenant_id, due, format('alerts:%s:%s', s.id, coalesce(due::text, p_video_id::text)));
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.mail_alerts IS
    'Enqueues the mail that tells of a match: at once, at the next full hour, or at six o''clock in the time zone of the database.';

CREATE FUNCTION cortana.mail_to_send(p_payload jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN coalesce((SELECT invitation_mail(i) FROM invitations i WHERE i.id = (p_payload ->> 'invitation_id')::uuid),
                    (SELECT alert_mail(s) FROM saved_searches s WHERE s.id = (p_payload ->> 'search_id')::uuid));
END
$$;
COMMENT ON FUNCTION cortana.mail_to_send IS
    'What the mail of a job says, for mail-worker: {to, subject, lines, unsubscribe, videos}; null: nothing is to be sent any more.';

CREATE FUNCTION cortana.mail_was_sent(p_payload jsonb, p_result jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE invitations SET code = NULL WHERE id = (p_payload ->> 'invitation_id')::uuid;
    UPDATE saved_search_matches SET is_to_mail = false
    WHERE search_id = (p_payload ->> 'search_id')::uuid
      AND video_id IN (SELECT v::uuid FROM jsonb_array_elements_text(coalesce(p_result -> 'videos', '[]')) AS v);
    PERFORM mail_alerts(s, gen_random_uuid()) FROM saved_searches s -- of what came meanwhile
    WHERE s.id = (p_payload ->> 'search_id')::uuid AND (p_result ->> 'is_sent')::boolean
      AND EXISTS (SELECT FROM saved_search_matches m WHERE m.search_id = s.id AND m.is_to_mail);
END
$$;
COMMENT ON FUNCTION cortana.mail_was_sent IS 'Records that the mail of a job was sent, in the transaction that ends the job.';

CREATE FUNCTION cortana.set_alert_mail(p_search_id uuid, p_mail text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE saved_searches SET mail = p_mail WHERE id = p_search_id;
    UPDATE saved_search_matches SET is_to_mail = false WHERE search_id = p_search_id AND is_to_mail AND p_mail = 'never';
END
$$;
COMMENT ON FUNCTION cortana.set_alert_mail IS 'Says when a saved search tells by mail what it finds from now on.';

CREATE FUNCTION cortana.check_alert_mail(p_mail text, p_owner_id uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF coalesce(p_mail, 'never') = 'never' THEN
        RETURN;
    END IF;
    PERFORM require_mail();
    IF p_owner_id IS DISTINCT FROM auth.uid() THEN
        RAISE EXCEPTION 'mail goes to who saved the search: save it yourself to get mail about it' USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF NOT EXISTS (SELECT FROM people WHERE id = p_owner_id) THEN
        RAISE EXCEPTION 'mail goes to people who sign in here, and you have no e-mail address here'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.check_alert_mail IS 'Refuses a search that shall tell by mail if its owner is not the caller, or has no address.';

-- ---- what needs no sign-in ---------------------------------------------------------------------------------

CREATE FUNCTION api.unsubscribe(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    search uuid;
BEGIN
    SELECT id INTO search FROM saved_searches WHERE secret_hash(mail_key) = decode(p ->> 'digest', 'hex');
    PERFORM set_alert_mail(search, 'never');
    RETURN api.done(search IS NOT NULL);
END
$$;

CREATE FUNCTION api.mail_password_link(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    lasts CONSTANT interval := '1 hour';
    pause CONSTANT interval := '5 minutes'; -- between two mails to one person
    person people;
BEGIN
    PERFORM require_mail();
    SELECT * INTO person FROM people WHERE email = lower(p ->> 'email') AND disabled_at IS NULL AND password IS NOT NULL;
    IF FOUND AND NOT EXISTS (SELECT FROM invitations i WHERE i.person_id = person.id AND i.created_at > now() - pause) THEN
        PERFORM make_invitation(person.id, person.email, NULL, NULL, lasts);
    ELSE
        -- The same work for nobody, undone at once, so that the time tells nothing.
        BEGIN
            INSERT INTO people (email, name) VALUES (gen_random_uuid()::text, 'nobody') RETURNING * INTO person;
            PERFORM make_invitation(person.id, person.email, NULL, NULL, lasts);
            RAISE SQLSTATE 'CV001';
        EXCEPTION WHEN SQLSTATE 'CV001' THEN
            NULL;
        END;
    END IF;
    RETURN api.done();
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION api.unsubscribe, api.mail_password_link TO anon, authenticated;
