-- What keeps a mistake of ours from disabling devices one by one: what providers said of the tokens that a credential
-- was used for, over all processes and restarts.

-- A wrong environment, topic or project makes good tokens look dead. Workers ask here before they disable a device on
-- such a word. One row a credential, written when there is such a word, and now and then while pushes are accepted.
CREATE TABLE peal.token_verdict (
    credential_id bigint PRIMARY KEY REFERENCES peal.credential (id) ON DELETE CASCADE,
    -- Of the last hundred answers: how many were accepted, and which devices the others were for, each counted once.
    accepted integer NOT NULL DEFAULT 0,
    suspects bigint[] NOT NULL DEFAULT '{}',
    -- When a push was first known to be accepted with these settings; until then nobody is disabled.
    proven_at timestamptz,
    -- Since when words about tokens have no effect; NULL while they are believed.
    held_since timestamptz,
    -- The version of the credential (its updated_at) that brought its settings: what was seen under an older one is void.
    settings_at timestamptz NOT NULL DEFAULT '-infinity',
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Adds what a worker saw to the row of a credential, and says what may be believed.
-- version_at: updated_at of the credential as the worker knows it. What it saw with other settings than those of now
-- changes nothing, and nothing of it is believed.
-- accepted: pushes that were accepted since the worker's last report; suspects: devices whose tokens look dead in a way
-- that a wrong setting would give; others: how many more look dead in a way that only an unproven setting would give.
-- Throws 55P03 when somebody keeps the credential or its row locked.
-- is_proven: a push was accepted with these settings. is_high: too many of the last answers were suspects.
-- has_turned: whether words are believed is another now than before. suspected: how many devices are suspects now.
CREATE FUNCTION peal.judge_tokens(
    credential bigint, version_at timestamptz, accepted integer, suspects bigint[], others integer,
    OUT is_proven boolean, OUT is_high boolean, OUT has_turned boolean, OUT suspected integer
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- Who asks has connections that others wait for, and asks again.
SET lock_timeout = '500ms'
AS $$
DECLARE
    answers_kept constant integer := 100;
    highest_percent constant integer := 30;
    before peal.token_verdict;
    good bigint;
    devices bigint[];
    total bigint;
    is_held boolean;
BEGIN
    INSERT INTO peal.token_verdict (credential_id)
    SELECT c.id FROM peal.credential AS c WHERE c.id = credential
    ON CONFLICT DO NOTHING;
    SELECT * INTO before FROM peal.token_verdict AS v WHERE v.credential_id = credential FOR UPDATE;
    IF NOT FOUND OR version_at < before.settings_at THEN
        -- The credential is gone, or has other settings, and with it what its devices were told.
        is_proven := false;
        is_high := false;
        has_turned := false;
        suspected := 0;
        RETURN;
    END IF;
    good := before.accepted + judge_tokens.accepted;
    -- A dead token that is sent to again and again is no new evidence.
    devices := before.suspects || ARRAY(
        SELECT DISTINCT s.device FROM unnest(judge_tokens.suspects) AS s (device) WHERE s.device <> ALL (before.suspects)
    );
    total := good + cardinality(devices);
    IF total > answers_kept THEN
        good := good * answers_kept / total;
        devices := devices[cardinality(devices) - ceil(cardinality(devices) * answers_kept / total::numeric)::integer + 1 :];
    END IF;
    suspected := cardinality(devices);
    is_proven := before.proven_at IS NOT NULL OR judge_tokens.accepted > 0;
    is_high := suspected > 0 AND suspected * 100 >= (good + suspected) * highest_percent;
    is_held := is_high OR NOT is_proven AND (others > 0 OR before.held_since IS NOT NULL);
    has_turned := is_held <> (before.held_since IS NOT NULL);
    UPDATE peal.token_verdict AS v SET
        accepted = good,
        suspects = devices,
        proven_at = CASE WHEN is_proven THEN coalesce(before.proven_at, now()) END,
        held_since = CASE WHEN is_held THEN coalesce(before.held_since, now()) END,
        updated_at = now()
    WHERE v.credential_id = credential;
END
$$;

-- What was learnt with other settings counts for nothing.
CREATE FUNCTION peal.forget_verdict() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO peal.token_verdict AS v (credential_id, settings_at) VALUES (NEW.id, NEW.updated_at)
    ON CONFLICT (credential_id) DO UPDATE SET
        accepted = 0, suspects = '{}', proven_at = NULL, held_since = NULL, settings_at = excluded.settings_at,
        updated_at = now();
    RETURN NULL;
END
$$;

CREATE TRIGGER forget_verdict
AFTER UPDATE OF environment, topic, project_id, endpoint, key_id, team_id, sealed ON peal.credential
FOR EACH ROW EXECUTE FUNCTION peal.forget_verdict();
