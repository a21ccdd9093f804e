-- Writing the record of one step is what a durable run does most: it takes a short way of its own.

-- Records are written, each under the token of its attempt, and what an undo has undone is forgotten. Answers those that were not, by
-- their places: refused (the token does not stand) or busy (somebody has the run's row locked: ask again). What is done stays as it is,
-- and so does the end of a child that was written down before its parent came to wait for it.
CREATE OR REPLACE FUNCTION redisjobs.write_steps(
    runs uuid[], lives integer[], numbers integer[], starts integer[], holders text[], names text[], kinds text[], states text[],
    all_tries integer[], dues timestamptz[], dues_in float8[], waits boolean[], children uuid[], undos boolean[], codecs text[],
    results bytea[], details jsonb[], seconds float8[], undone text[])
RETURNS TABLE (place integer, word text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    -- Most writes travel alone: two small statements cost a third of the one that can do all.
    IF cardinality(runs) = 1 AND undone[1] IS NULL AND NOT undos[1] THEN
        PERFORM FROM redisjobs.outbox o
        WHERE o.id = runs[1] AND o.redrives = lives[1] AND o.fence = ARRAY[numbers[1], starts[1]]::bigint[] AND o.holder = holders[1]
        FOR SHARE SKIP LOCKED;
        IF FOUND THEN
            INSERT INTO redisjobs.steps AS s (run, name, kind, state, tries, due, awaited, child, undo, codec, value, detail, started_at,
                                              ended_at)
            VALUES (runs[1], names[1], kinds[1], states[1], all_tries[1],
                    coalesce(dues[1], clock_timestamp() + make_interval(secs => dues_in[1])), waits[1], children[1], undos[1], codecs[1],
                    results[1], details[1], clock_timestamp() - make_interval(secs => seconds[1]),
                    CASE WHEN states[1] IN ('done', 'failed') THEN clock_timestamp() END)
            ON CONFLICT (run, name) DO UPDATE
            SET kind = excluded.kind, state = excluded.state, tries = excluded.tries, awaited = excluded.awaited, child = excluded.child,
                due = CASE WHEN s.kind = 'sleep' THEN s.due ELSE excluded.due END, undo = excluded.undo, event = NULL, key = NULL,
                codec = excluded.codec, value = excluded.value, detail = excluded.detail, ended_at = excluded.ended_at
            WHERE s.state <> 'done' AND NOT (s.state = 'failed' AND s.child = excluded.child AND excluded.state = 'waiting');
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
    WITH given AS (
        SELECT * FROM unnest(runs, lives, numbers, starts, holders, names, kinds, states, all_tries, dues, dues_in, waits, children, undos,
                             codecs, results, details, seconds, undone)
            WITH ORDINALITY AS g(run, life, number, start, holder, name, kind, state, tries, due, due_in, awaited, child, undo, codec,
                                 value, detail, took, forgets, place)),
    held AS MATERIALIZED (
        SELECT o.id, o.redrives, o.fence, o.holder, o.undo FROM redisjobs.outbox o WHERE o.id = ANY (runs)
        ORDER BY o.id FOR SHARE SKIP LOCKED),
    ours AS MATERIALIZED (
        SELECT g.*, h.undo AS has_undo FROM given g JOIN held h ON h.id = g.run
        WHERE h.redrives = g.life AND h.fence = ARRAY[g.number, g.start]::bigint[] AND h.holder = g.holder),
    written AS (
        INSERT INTO redisjobs.steps AS s (run, name, kind, state, tries, due, awaited, child, undo, codec, value, detail, started_at,
                                          ended_at)
        SELECT run, name, kind, state, tries, coalesce(due, clock_timestamp() + make_interval(secs => due_in)), awaited, child, undo,
               codec, value, detail, clock_timestamp() - make_interval(secs => took),
               CASE WHEN state IN ('done', 'failed') THEN clock_timestamp() END
        FROM ours ORDER BY place
        ON CONFLICT (run, name) DO UPDATE
        SET kind = excluded.kind, state = excluded.state, tries = excluded.tries, awaited = excluded.awaited, child = excluded.child,
            due = CASE WHEN s.kind = 'sleep' THEN s.due ELSE excluded.due END, undo = excluded.undo, event = NULL, key = NULL,
            codec = excluded.codec, value = excluded.value, detail = excluded.detail, ended_at = excluded.ended_at
        WHERE s.state <> 'done' AND NOT (s.state = 'failed' AND s.child = excluded.child AND excluded.state = 'waiting')),
    forgotten AS (DELETE FROM redisjobs.steps s USING ours o WHERE s.run = o.run AND s.name = o.forgets),
    marked AS (UPDATE redisjobs.outbox u SET undo = true FROM ours o WHERE u.id = o.run AND o.undo AND NOT o.has_undo)
    SELECT g.place::integer, CASE WHEN s.id IS NULL THEN 'refused' ELSE 'busy' END
    FROM given g LEFT JOIN redisjobs.outbox s
         ON s.id = g.run AND s.redrives = g.life AND s.fence = ARRAY[g.number, g.start]::bigint[] AND s.holder = g.holder
         AND s.id NOT IN (SELECT id FROM held)
    WHERE g.place NOT IN (SELECT place FROM ours);
END $$;
