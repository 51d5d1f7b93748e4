-- Filters: what an audience or a segment says of devices, as a condition in SQL.

-- How many values a filter compares with.
CREATE FUNCTION peal.filter_values(filter jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT count(*)::integer
    FROM jsonb_path_query(filter, 'strict $.** ? (@.type() != "object" && @.type() != "array")')
$$;

-- Refuses what would take seconds to plan, in which its app would hold up the others.
CREATE FUNCTION peal.check_rule_size(path text, bytes bigint, filter_values bigint) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF bytes > 65536 THEN
        PERFORM peal.refuse(
            format('%s is %s bytes, the limit is 65536', path, bytes), 'Give the devices a tag, and filter by that.'
        );
    ELSIF filter_values > 4000 THEN
        PERFORM peal.refuse(
            format('%s has %s values, the limit is 4000', path, filter_values),
            'Give the devices a tag, and filter by that.'
        );
    END IF;
END
$$;

-- Refuses an audience whose filter and segments, excluded ones too, are too large together. A segment may have grown since
-- the job was inserted, so this is asked again when the audience is frozen.
CREATE FUNCTION peal.check_rule(of_app integer, audience jsonb) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bytes bigint;
    filter_values bigint;
BEGIN
    IF NOT audience ?| ARRAY['segments', 'excluded_segments'] THEN
        RETURN;
    END IF;
    SELECT sum(octet_length(f.filter::text)), sum(peal.filter_values(f.filter)) INTO bytes, filter_values
    FROM (
        SELECT s.filter FROM peal.segment AS s
        WHERE s.app_id = of_app AND s.name IN (
            SELECT jsonb_array_elements_text(
                coalesce(audience -> 'segments', '[]') || coalesce(audience -> 'excluded_segments', '[]')
            )
        )
        UNION ALL
        SELECT audience -> 'filter' WHERE audience ? 'filter'
    ) AS f;
    PERFORM peal.check_rule_size('audience: the rule of all its segments together', bytes, filter_values);
END
$$;

-- A filter as the SQL condition on a row of peal.device called d. All values are quoted literals.
-- An object joins its keys by AND. A key is `any` or `all` (arrays of filters), `not` (a filter), `tag.NAME`, or a
-- field; the value is the wanted one, or an object of operators: eq, ne, in, exists, gt, gte, lt, lte, prefix.
CREATE FUNCTION peal.filter_condition(filter jsonb, path text DEFAULT 'filter', depth integer DEFAULT 0) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    conditions text[] := '{}';
    parts text[];
    entry record;
    part record;
BEGIN
    IF jsonb_typeof(filter) IS DISTINCT FROM 'object' THEN
        PERFORM peal.refuse(format('%s must be an object, found %s', path, coalesce(jsonb_typeof(filter), 'nothing')));
    ELSIF filter = '{}' THEN
        PERFORM peal.refuse(format('%s is empty', path), 'To address every device use {"all": true}.');
    ELSIF depth > 8 THEN
        PERFORM peal.refuse(format('%s is nested more than 8 deep', path));
    ELSIF depth = 0 THEN
        PERFORM peal.check_rule_size(path, octet_length(filter::text), peal.filter_values(filter));
    END IF;
    FOR entry IN SELECT key, value FROM jsonb_each(filter) LOOP
        IF entry.key IN ('any', 'all') THEN
            IF jsonb_typeof(entry.value) <> 'array' OR jsonb_array_length(entry.value) NOT BETWEEN 1 AND 200 THEN
                PERFORM peal.refuse(format('%s.%s must be an array of 1 to 200 filters', path, entry.key));
            END IF;
            parts := '{}';
            FOR part IN SELECT value, ordinality FROM jsonb_array_elements(entry.value) WITH ORDINALITY LOOP
                parts := parts || peal.filter_condition(
                    part.value, format('%s.%s[%s]', path, entry.key, part.ordinality - 1), depth + 1
                );
            END LOOP;
            conditions := conditions || format(
                '(%s)', array_to_string(parts, CASE entry.key WHEN 'any' THEN ' OR ' ELSE ' AND ' END)
            );
        ELSIF entry.key = 'not' THEN
            conditions := conditions
                || format('(%s) IS NOT TRUE', peal.filter_condition(entry.value, path || '.not', depth + 1));
        ELSE
            conditions := conditions || peal.filter_term(entry.key, entry.value, path);
        END IF;
    END LOOP;
    RETURN '(' || array_to_string(conditions, ' AND ') || ')';
END
$$;

-- One key of a filter: a field or tag and what it must be.
CREATE FUNCTION peal.filter_term(key text, wanted jsonb, path text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fields constant text[] := ARRAY[
        'channel', 'environment', 'external_id', 'installation_id', 'locale', 'language', 'timezone',
        'app_version', 'os_version', 'model', 'registered_at', 'created_at'
    ];
    operators constant text[] := ARRAY['eq', 'ne', 'in', 'exists', 'gt', 'gte', 'lt', 'lte', 'prefix'];
    conditions text[] := '{}';
    operator record;
BEGIN
    path := path || '.' || key;
    IF left(key, 4) = 'tag.' THEN
        IF length(key) = 4 THEN
            PERFORM peal.refuse(format('%s names no tag', path), 'Write tag.NAME.');
        END IF;
    ELSIF key <> ALL (fields) THEN
        PERFORM peal.refuse_word(
            path, key, ARRAY['any', 'all', 'not'] || fields,
            format('Use any, all, not, tag.NAME or a field: %s.', array_to_string(fields, ', '))
        );
    END IF;
    IF jsonb_typeof(wanted) <> 'object' THEN
        RETURN peal.filter_comparison(key, 'eq', wanted, path);
    ELSIF wanted = '{}' THEN
        PERFORM peal.refuse(format('%s names no operator', path));
    END IF;
    FOR operator IN SELECT o.key AS name, o.value FROM jsonb_each(wanted) AS o LOOP
        IF operator.name <> ALL (operators) THEN
            PERFORM peal.refuse_word(
                path || '.' || operator.name, operator.name, operators,
                format('Known operators: %s.', array_to_string(operators, ', '))
            );
        END IF;
        conditions := conditions
            || peal.filter_comparison(key, operator.name, operator.value, path || '.' || operator.name);
    END LOOP;
    RETURN '(' || array_to_string(conditions, ' AND ') || ')';
END
$$;

-- One comparison of a filter. Tags compare by type: numbers as numbers, text as text.
CREATE FUNCTION peal.filter_comparison(key text, operator text, wanted jsonb, path text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_tag constant boolean := left(key, 4) = 'tag.';
    tag constant text := substr(key, 5);
    is_time constant boolean := key IN ('registered_at', 'created_at');
    type constant text := jsonb_typeof(wanted);
    symbol constant text := CASE operator WHEN 'gt' THEN '>' WHEN 'gte' THEN '>=' WHEN 'lt' THEN '<' ELSE '<=' END;
    expression text;
    literal text;
    parts text[] := '{}';
    entry jsonb;
BEGIN
    expression := CASE
        WHEN is_tag THEN format('(d.tags ->> %L)', tag)
        WHEN key = 'language' THEN 'lower(split_part(replace(d.locale, ''_'', ''-''), ''-'', 1))'
        ELSE format('d.%I', key)
    END;
    IF operator = 'exists' THEN
        IF type <> 'boolean' THEN
            PERFORM peal.refuse(format('%s must be true or false, found %s', path, type));
        END IF;
        RETURN format('%s IS %s', expression, CASE WHEN wanted = 'true' THEN 'NOT NULL' ELSE 'NULL' END);
    ELSIF operator = 'in' THEN
        IF type <> 'array' OR jsonb_array_length(wanted) NOT BETWEEN 1 AND 1000 THEN
            PERFORM peal.refuse(format('%s must be an array of 1 to 1000 values', path));
        END IF;
        FOR entry IN SELECT value FROM jsonb_array_elements(wanted) LOOP
            parts := parts || peal.filter_comparison(key, 'eq', entry, path);
        END LOOP;
        IF NOT is_tag AND NOT is_time THEN
            -- A thousand comparisons with one column take seconds to plan, one comparison with a thousand values none.
            RETURN format('%s = ANY (%L::text[])', expression, ARRAY(
                SELECT CASE key WHEN 'language' THEN lower(v) ELSE v END FROM jsonb_array_elements_text(wanted) AS v
            ));
        END IF;
        RETURN '(' || array_to_string(parts, ' OR ') || ')';
    ELSIF operator = 'ne' THEN
        RETURN format('%s IS NOT TRUE', peal.filter_comparison(key, 'eq', wanted, path));
    ELSIF type NOT IN ('string', 'number', 'boolean') THEN
        PERFORM peal.refuse(format('%s must be text, a number or true or false, found %s', path, type));
    ELSIF NOT is_tag AND type <> 'string' THEN
        PERFORM peal.refuse(format('%s must be text, found %s', path, type));
    END IF;
    IF is_time THEN
        BEGIN
            literal := format('%L::timestamptz', (wanted #>> '{}')::timestamptz);
        EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR invalid_parameter_value THEN
            PERFORM peal.refuse(format('%s is not a time', path), 'Write it like 2026-03-02T10:00:00Z.');
        END;
    ELSE
        literal := quote_literal(wanted #>> '{}');
    END IF;
    IF operator = 'eq' THEN
        IF is_tag THEN
            RETURN format('d.tags @> %L::jsonb', jsonb_build_object(tag, wanted));
        END IF;
        RETURN format('%s = %s', expression, CASE WHEN key = 'language' THEN lower(literal) ELSE literal END);
    ELSIF operator = 'prefix' THEN
        IF type <> 'string' OR is_time THEN
            PERFORM peal.refuse(format('%s works on text alone', path));
        END IF;
        RETURN format('starts_with(%s, %s)', expression, literal);
    ELSIF type = 'boolean' THEN
        PERFORM peal.refuse(format('%s cannot compare true or false by order', path));
    ELSIF type = 'number' THEN
        RETURN format(
            'CASE WHEN jsonb_typeof(d.tags -> %L) = ''number'' THEN %s::numeric %s %s ELSE false END',
            tag, expression, symbol, wanted #>> '{}'
        );
    ELSIF key IN ('app_version', 'os_version') THEN
        RETURN format('peal.version_key(%s) %s peal.version_key(%s)', expression, symbol, literal);
    END IF;
    RETURN format('%s %s %s%s', expression, symbol, literal, CASE WHEN is_time THEN '' ELSE ' COLLATE "C"' END);
END
$$;

-- A dotted version as numbers, so that 10.2 is above 9.9. NULL where a part is no number.
CREATE FUNCTION peal.version_key(version text) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN version ~ '^\d{1,9}(\.\d{1,9})*$' THEN string_to_array(version, '.')::integer[]
    END
$$;
