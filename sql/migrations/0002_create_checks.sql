-- What every check of an input is made of: refusing by name, and the checks of single JSON values.

-- Raises the error of a bad field. The message begins with the field's path, the hint says what to do.
CREATE FUNCTION peal.refuse(message text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = message;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = message, HINT = hint;
END
$$;

-- Raises the error of a bad field: the message is its path and what is wrong with it.
CREATE FUNCTION peal.refuse_field(path text, problem text, hint text DEFAULT NULL) RETURNS void
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT peal.refuse(path || ' ' || problem, hint)
$$;

-- What errors call the type of a JSON value.
CREATE FUNCTION peal.json_kind(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
AS $$
    SELECT CASE pg_catalog.jsonb_typeof(value) WHEN 'string' THEN 'text' ELSE pg_catalog.jsonb_typeof(value) END
$$;

-- The known key that a misspelt one was probably meant to be: the first within two edits (one for short keys), or NULL.
CREATE FUNCTION peal.nearest_key(key text, known text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    nearest text;
    best integer := CASE WHEN length(key) <= 3 THEN 2 ELSE 3 END;
    candidate text;
    previous integer[];
    current integer[];
BEGIN
    FOREACH candidate IN ARRAY known LOOP
        CONTINUE WHEN abs(length(candidate) - length(key)) > 2;
        -- Levenshtein's distance, row by row; column c of the text is element c + 1.
        previous := ARRAY(SELECT generate_series(0, length(candidate)));
        FOR r IN 1..length(key) LOOP
            current := ARRAY[r];
            FOR c IN 1..length(candidate) LOOP
                current[c + 1] := least(
                    previous[c] + CASE WHEN substr(key, r, 1) = substr(candidate, c, 1) THEN 0 ELSE 1 END,
                    previous[c + 1] + 1,
                    current[c] + 1
                );
            END LOOP;
            previous := current;
        END LOOP;
        IF previous[length(candidate) + 1] < best THEN
            best := previous[length(candidate) + 1];
            nearest := candidate;
        END IF;
    END LOOP;
    RETURN nearest;
END
$$;

-- Raises the error of a word at a path that is not among the known ones, with the one that was probably meant.
CREATE FUNCTION peal.refuse_word(path text, word text, known text[], hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM peal.refuse(
        path || ' is not known' || coalesce(' (did you mean ' || peal.nearest_key(word, known) || '?)', ''),
        coalesce(hint, format('Known keys: %s.', array_to_string(known, ', ')))
    );
END
$$;

-- Refuses a key of an object that is not among the known ones: a misspelt key must not be ignored.
CREATE FUNCTION peal.check_keys(path text, object jsonb, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text;
BEGIN
    SELECT key INTO unknown FROM jsonb_object_keys(object) AS key WHERE key <> ALL (known) LIMIT 1;
    IF unknown IS NOT NULL THEN
        PERFORM peal.refuse_word(path || '.' || unknown, unknown, known);
    END IF;
END
$$;

-- Refuses what is not an object. NULL passes.
CREATE FUNCTION peal.check_object(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be an object, found ' || peal.json_kind(value));
    END IF;
END
$$;

-- Refuses what is not a text, or is an empty one. NULL and null pass.
CREATE FUNCTION peal.check_text(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'string' THEN
        PERFORM peal.refuse_field(path, 'must be text, found ' || peal.json_kind(value));
    ELSIF value = '""' THEN
        PERFORM peal.refuse_field(path, 'must not be empty');
    END IF;
END
$$;

-- Refuses what is not one of a few words. NULL and null pass.
CREATE FUNCTION peal.check_word(path text, value jsonb, words text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM peal.check_text(path, value);
    IF value <> 'null' AND value #>> '{}' <> ALL (words) THEN
        PERFORM peal.refuse_field(path, 'must be one of ' || array_to_string(words, ', '));
    END IF;
END
$$;

-- Refuses what is not true or false. NULL and null pass.
CREATE FUNCTION peal.check_boolean(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(value) NOT IN ('boolean', 'null') THEN
        PERFORM peal.refuse_field(path, 'must be true or false, found ' || peal.json_kind(value));
    END IF;
END
$$;

-- Refuses what is not a whole number, spelt without fraction, within bounds. NULL and null pass.
CREATE FUNCTION peal.check_whole_number(path text, value jsonb, low bigint, high bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'number' THEN
        PERFORM peal.refuse_field(path, 'must be a whole number, found ' || peal.json_kind(value));
    ELSIF value::text !~ '^-?[0-9]{1,18}$' OR value::text::bigint NOT BETWEEN low AND high THEN
        PERFORM peal.refuse_field(path, format('must be a whole number from %s to %s', low, high));
    END IF;
END
$$;

-- Refuses what is not a number from 0 to 1. NULL and null pass.
CREATE FUNCTION peal.check_share(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'number' THEN
        PERFORM peal.refuse_field(path, 'must be a number, found ' || peal.json_kind(value));
    ELSIF value::numeric NOT BETWEEN 0 AND 1 THEN
        PERFORM peal.refuse_field(path, 'must be a number from 0 to 1');
    END IF;
END
$$;

-- Refuses what is not a non-empty array of text of at most `most` entries. NULL passes.
CREATE FUNCTION peal.check_text_array(path text, list jsonb, most integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF list IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(list) <> 'array' THEN
        PERFORM peal.refuse(format('%s must be an array of text, found %s', path, jsonb_typeof(list)));
    ELSIF jsonb_array_length(list) = 0 THEN
        PERFORM peal.refuse(format('%s is empty', path), 'Name at least one, or leave the key out.');
    ELSIF jsonb_array_length(list) > most THEN
        PERFORM peal.refuse(
            format('%s has %s entries, the limit is %s', path, jsonb_array_length(list), most),
            'Split the send, or use a segment.'
        );
    ELSIF EXISTS (
        SELECT FROM jsonb_array_elements(list) AS entry
        WHERE jsonb_typeof(entry) <> 'string' OR entry #>> '{}' = ''
    ) THEN
        PERFORM peal.refuse(format('%s must hold text that is not empty', path));
    ELSIF EXISTS (SELECT FROM jsonb_array_elements_text(list) AS entry WHERE octet_length(entry) > 1024) THEN
        PERFORM peal.refuse(format('%s holds a text of more than 1024 bytes, which nothing here is as long as', path));
    END IF;
END
$$;

-- What is wrong with a text that travels as a header: printable ASCII, at most 64 bytes, no outer spaces. NULL if nothing.
CREATE FUNCTION peal.collapse_id_problem(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN value = '' THEN 'must not be empty'
        WHEN value ~ '[^ -~]' COLLATE "C" THEN 'must be printable ASCII'
        WHEN octet_length(value) > 64 THEN format('must be at most 64 bytes, found %s', octet_length(value))
        WHEN value LIKE ' %' OR value LIKE '% ' THEN 'must not begin or end with a space'
    END
$$;

-- Refuses a collapse id that APNs would refuse. NULL passes.
CREATE FUNCTION peal.check_collapse_id(value text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF peal.collapse_id_problem(value) IS NOT NULL THEN
        PERFORM peal.refuse_field('collapse_id', peal.collapse_id_problem(value));
    END IF;
END
$$;
