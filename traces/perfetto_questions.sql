-- The usual questions to a trace of `tpusim export RUN.h5 --format perfetto`, as views, functions and macros.
-- Paste this file into "Query (SQL)" of ui.perfetto.dev, run it, then ask:
--
--   SELECT * FROM tpusim_time_by_cause;                 where the cycles of each core went; they add up to its steps
--   SELECT * FROM tpusim_bounds;                        time of the ops of a core by the resource that most of each depends on
--   SELECT * FROM tpusim_ops ORDER BY ms DESC;          ops of a core by time, with scope, source line, TFLOP/s, GB/s
--   SELECT * FROM tpusim_time_by_category;
--   SELECT * FROM tpusim_gaps!(1000);                   gaps of more than 1,000 ns between the ops of a core
--   SELECT * FROM tpusim_overlap;                       how much of the time on the links a core computes meanwhile
--   SELECT * FROM tpusim_dma_paths;                     bytes, rate and concurrency of each path
--   SELECT * FROM tpusim_counter_totals;                integral and highest value of each counter
--   SELECT * FROM tpusim_waits_of!('all-reduce%');      what the ops of this name wait for
--   SELECT * FROM tpusim_unit_use;                      busy time of units in the window of `tpusim run --window`
--   SELECT tpusim_cycle(ts) FROM slice LIMIT 1000;      exact where the clock is below 1 GHz

-- Tracks of cores, lanes of one track under its name.
CREATE OR REPLACE PERFETTO VIEW tpusim_tracks AS
SELECT t.id AS track_id, t.name AS track,
  CAST(substr(coalesce(g.name, c.name), 6) AS INTEGER) AS core
FROM track t JOIN track c ON t.parent_id = c.id
LEFT JOIN track g ON c.parent_id = g.id AND g.name GLOB 'core [0-9]*'
WHERE c.name GLOB 'core [0-9]*' OR g.name IS NOT NULL;

CREATE OR REPLACE PERFETTO VIEW tpusim_slices AS
SELECT s.id, s.ts, s.dur, s.ts + s.dur AS ts_end, s.name, s.category, s.depth, s.arg_set_id, t.track, t.core
FROM slice s JOIN tpusim_tracks t USING (track_id);

CREATE OR REPLACE PERFETTO FUNCTION tpusim_clock_mhz() RETURNS LONG AS
SELECT extract_arg(arg_set_id, 'debug.clock_mhz') FROM slice WHERE category = 'step' LIMIT 1;

CREATE OR REPLACE PERFETTO FUNCTION tpusim_cycle(ts LONG) RETURNS LONG AS
SELECT ($ts * tpusim_clock_mhz() + 999) / 1000;

-- Time of each core in its steps: computing, or waiting by what for.
CREATE OR REPLACE PERFETTO VIEW tpusim_time_by_cause AS
WITH steps AS (
  SELECT core, min(ts) AS begin, max(ts_end) AS end, sum(dur) AS ns, count(*) AS n
  FROM tpusim_slices WHERE category = 'step' GROUP BY core),
waits AS (
  SELECT w.core, w.name AS cause,
    sum(max(0, min(w.ts_end, s.end) - max(w.ts, s.begin))) AS ns
  FROM tpusim_slices w JOIN steps s USING (core)
  WHERE w.category = 'wait' AND w.depth = 0 GROUP BY w.core, w.name),
causes AS (
  SELECT core, cause, ns FROM waits
  UNION ALL
  SELECT s.core, 'computes', s.ns - coalesce((SELECT sum(ns) FROM waits w WHERE w.core = s.core), 0) FROM steps s)
SELECT c.core, c.cause, c.ns / 1e6 / s.n AS ms_per_step, 100.0 * c.ns / s.ns AS percent
FROM causes c JOIN steps s USING (core) ORDER BY c.core, c.ns DESC;

CREATE OR REPLACE PERFETTO VIEW tpusim_bounds AS
SELECT core, name AS resource, sum(dur) / 1e6 AS ms, count(*) AS executions
FROM tpusim_slices WHERE category = 'cause' GROUP BY core, name ORDER BY core, ms DESC;

CREATE OR REPLACE PERFETTO VIEW tpusim_ops AS
SELECT core, name, category, count(*) AS executions, sum(dur) / 1e6 AS ms,
  extract_arg(arg_set_id, 'debug.op_name') AS scope,
  extract_arg(arg_set_id, 'debug.source') AS source,
  extract_arg(arg_set_id, 'debug.shape') AS shape,
  sum(extract_arg(arg_set_id, 'debug.flops')) * 1e-3 / sum(dur) AS tflop_per_s,
  sum(extract_arg(arg_set_id, 'debug.hbm_bytes')) * 1.0 / sum(dur) AS hbm_gb_per_s
FROM tpusim_slices WHERE track GLOB 'XLA Ops*' GROUP BY core, name;

CREATE OR REPLACE PERFETTO VIEW tpusim_time_by_category AS
SELECT core, category, sum(dur) / 1e6 AS ms, count(*) AS executions
FROM tpusim_slices WHERE track GLOB 'XLA Ops*' GROUP BY core, category ORDER BY core, ms DESC;

CREATE OR REPLACE PERFETTO MACRO tpusim_gaps(longer_than_ns Expr) RETURNS TableOrSubquery AS
(SELECT core, name AS after, next AS before, ts_end AS ts, begin - ts_end AS dur
 FROM (SELECT core, name, ts_end, lead(ts) OVER w AS begin, lead(name) OVER w AS next
       FROM tpusim_slices WHERE track = 'XLA Ops' AND depth = 0
       WINDOW w AS (PARTITION BY core ORDER BY ts))
 WHERE begin - ts_end > $longer_than_ns ORDER BY dur DESC);

-- Spans of a table (core, ts, ts_end), those that touch or overlap as one.
CREATE OR REPLACE PERFETTO MACRO tpusim_union(spans TableOrSubquery) RETURNS TableOrSubquery AS
(SELECT core, min(ts) AS ts, max(ts_end) AS ts_end
 FROM (SELECT *, sum(ts > before) OVER (PARTITION BY core ORDER BY ts, ts_end) AS island
       FROM (SELECT core, ts, ts_end, coalesce(max(ts_end) OVER (
               PARTITION BY core ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1) AS before
             FROM $spans))
 GROUP BY core, island);

-- Of the time in which what a core sends is on the links: how long it computes, how long it waits.
CREATE OR REPLACE PERFETTO VIEW tpusim_overlap AS
WITH sent AS (
  SELECT * FROM tpusim_union!((SELECT core, ts, ts_end FROM tpusim_slices WHERE category = 'dma' AND name GLOB '*ICI*'))),
waits AS (
  SELECT * FROM tpusim_union!((SELECT core, ts, ts_end FROM tpusim_slices WHERE category = 'wait' AND depth = 0))),
idle AS (
  SELECT s.core, sum(min(s.ts_end, w.ts_end) - max(s.ts, w.ts)) AS ns
  FROM sent s JOIN waits w ON w.core = s.core AND w.ts < s.ts_end AND w.ts_end > s.ts GROUP BY s.core),
whole AS (SELECT core, sum(ts_end - ts) AS ns FROM sent GROUP BY core)
SELECT w.core, w.ns / 1e6 AS on_links_ms, (w.ns - coalesce(i.ns, 0)) / 1e6 AS computes_ms,
  coalesce(i.ns, 0) / 1e6 AS waits_ms, 100.0 * (w.ns - coalesce(i.ns, 0)) / w.ns AS percent_hidden
FROM whole w LEFT JOIN idle i USING (core);

CREATE OR REPLACE PERFETTO VIEW tpusim_dma_paths AS
WITH spans AS (SELECT core, name, dur, ts, ts_end, extract_arg(arg_set_id, 'debug.bytes') AS bytes
  FROM tpusim_slices WHERE category = 'dma')
SELECT core, name AS path, count(*) AS dmas, sum(bytes) AS bytes, sum(dur) / 1e6 AS total_ms,
  sum(dur) * 1.0 / (max(ts_end) - min(ts)) AS mean_in_flight,
  sum(bytes) * 1.0 / (max(ts_end) - min(ts)) AS gb_per_s
FROM spans GROUP BY core, name ORDER BY core, bytes DESC;

-- GB/s times seconds are GB, % times seconds are not of use, bytes in use neither.
CREATE OR REPLACE PERFETTO VIEW tpusim_counter_totals AS
SELECT track, unit, max(value) AS highest, sum(value * (until - ts)) AS integral_bytes
FROM (SELECT t.name AS track, t.unit, c.value, c.ts,
        coalesce(lead(c.ts) OVER (PARTITION BY c.track_id ORDER BY c.ts), c.ts) AS until
      FROM counter c JOIN counter_track t ON c.track_id = t.id)
WHERE unit = 'GB/s' GROUP BY track ORDER BY track;

CREATE OR REPLACE PERFETTO MACRO tpusim_waits_of(pattern Expr) RETURNS TableOrSubquery AS
(SELECT o.core, o.name AS op, w.name AS cause, count(*) AS waits, sum(w.dur) / 1e6 AS ms
 FROM tpusim_slices o JOIN tpusim_slices w ON w.core = o.core AND w.ts >= o.ts AND w.ts_end <= o.ts_end
 WHERE o.track = 'XLA Ops' AND o.name LIKE $pattern AND w.category = 'wait' AND w.depth = 0
 GROUP BY o.core, o.name, w.name ORDER BY ms DESC);

-- Of the time from the first bundle of a core in the window to its last.
CREATE OR REPLACE PERFETTO VIEW tpusim_unit_use AS
WITH spans AS (SELECT core, max(ts_end) - min(ts) AS ns FROM tpusim_slices WHERE category = 'bundle' GROUP BY core)
SELECT s.core, s.track AS unit, count(*) AS instructions, sum(s.dur) AS busy_ns, 100.0 * sum(s.dur) / w.ns AS percent
FROM tpusim_slices s JOIN spans w USING (core) WHERE s.category = 'instruction' GROUP BY s.core, s.track ORDER BY s.core, busy_ns DESC;
