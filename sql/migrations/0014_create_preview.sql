-- What `peal send --dry-run` asks: whom an audience would reach now, by the rules by which it would be frozen.

-- Recipients by channel and by the reason for which they would be skipped (NULL: they would be sent to). A device that
-- several selectors lead to counts once. The channel is NULL for ids that lead to no device.
CREATE FUNCTION peal.preview_audience(app text, audience jsonb)
RETURNS TABLE (channel text, skipped_reason text, n bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    of_app integer;
    rule text;
    excluded text;
    named_ids bigint[];
BEGIN
    SELECT a.id INTO of_app FROM peal.app AS a WHERE a.slug = preview_audience.app;
    IF of_app IS NULL THEN
        PERFORM peal.refuse(format('app: there is no app called "%s"', app), 'Make it with: peal app create SLUG');
    END IF;
    PERFORM peal.check_audience(of_app, audience);
    rule := peal.reachable_condition(of_app, audience);
    excluded := peal.segments_condition(of_app, audience -> 'excluded_segments', 'audience.excluded_segments');
    IF audience ?| ARRAY['external_ids', 'device_ids'] THEN
        RETURN QUERY EXECUTE format(
            'SELECT peal.route_channel(r.route), r.reason, count(*) '
            'FROM (SELECT n.route, '
            'CASE WHEN n.reason IS NULL AND (%s) THEN ''excluded'' ELSE n.reason END AS reason '
            'FROM peal.resolve_named($1, $2) AS n '
            'LEFT JOIN peal.device AS d ON d.app_id = $1 AND d.id = n.device_id AND %L) AS r GROUP BY 1, 2',
            coalesce(excluded, 'false'), excluded IS NOT NULL
        ) USING of_app, audience;
        named_ids := ARRAY(SELECT r.device_id FROM peal.resolve_named(of_app, audience) AS r WHERE r.device_id <> 0);
    END IF;
    IF rule IS NOT NULL THEN
        RETURN QUERY EXECUTE format(
            'SELECT d.channel, NULL::text, count(*) FROM peal.device AS d WHERE %s%s GROUP BY 1',
            rule, CASE WHEN named_ids IS NULL THEN '' ELSE ' AND d.id <> ALL ($1)' END
        ) USING named_ids;
    END IF;
END
$$;
