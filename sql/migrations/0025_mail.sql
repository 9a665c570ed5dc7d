-- Mail: invitations and links for a new password. A mail is a job that names what it
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

CREATE FUNCTION cortana.enqueue_mail(p_payload jsonb) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO jobs (job_type, payload, priority) SELECT name, p_payload, base_priority FROM job_types WHERE name = 'mail'
$$;
COMMENT ON FUNCTION cortana.enqueue_mail IS
    'Enqueues a mail: {"invitation_id"}. Not by enqueue_job(), because that checks the rights of the caller.';

CREATE FUNCTION cortana.mail_line(p_text text, p_path text DEFAULT NULL) RETURNS jsonb
LANGUAGE sql IMMUTABLE
RETURN jsonb_strip_nulls(jsonb_build_object('text', p_text, 'path', p_path));
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

CREATE FUNCTION cortana.mail_to_send(p_payload jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT invitation_mail(i) FROM invitations i WHERE i.id = (p_payload ->> 'invitation_id')::uuid);
END
$$;
COMMENT ON FUNCTION cortana.mail_to_send IS
    'What the mail of a job says, for mail-worker: {to, subject, lines}; null: nothing is to be sent any more.';

CREATE FUNCTION cortana.mail_was_sent(p_payload jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE invitations SET code = NULL WHERE id = (p_payload ->> 'invitation_id')::uuid;
END
$$;
COMMENT ON FUNCTION cortana.mail_was_sent IS 'Records that the mail of a job was sent, in the transaction that ends the job.';

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
