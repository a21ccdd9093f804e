-- lanes: jobs of one lane of the queue run one after the other, in the order of publishing. Of each lane one job may
-- run, its head; the others wait behind it, without an entry in a stream.
-- uses lib/record.lua lib/ready.lua
--
-- lanes    hash        lane -> id of its head; `s` before it: a run that is suspended, and has not ended
-- behind   sorted set  score 0, by name: lane NUL place NUL id, of each that waits. The record's entry is `=place`.
-- A place is the row's place in line, 16 digits, a dot and 9 more; of a job without a row it is one after the last.
-- In a record the lane stands behind the row's place in line, 16 digits, all 0 where it has no row.

-- At most so many that are gone are passed over at once; the rest is left to whoever comes next.
local STALE_AT_ONCE = 100

local function lane_of(r)
  if not string.find(r.flags, 'x', 1, true) then return nil end
  local lane = extras_of(r).lane
  if lane == '' then return nil end
  return string.sub(lane, 17), string.sub(lane, 1, 16)
end

local function is_behind(r)
  return string.sub(r.entry, 1, 1) == '='
end

local function member_of(lane, place, id)
  return lane .. '\0' .. place .. '\0' .. id
end

-- The first of those who wait in a lane, or the last.
local function first_behind(q, lane)
  return redis.call('ZRANGE', q.behind, '[' .. lane .. '\0', '(' .. lane .. '\1', 'BYLEX', 'LIMIT', 0, 1)[1]
end

local function last_behind(q, lane)
  return redis.call('ZRANGE', q.behind, '(' .. lane .. '\1', '[' .. lane .. '\0', 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
end

-- Where a job that comes to wait stands.
local function place_in(q, lane, order)
  if order ~= '0000000000000000' then return order .. '.000000000' end
  local last = last_behind(q, lane)
  if not last then return order .. '.000000001' end
  local theirs, n = string.match(last, '^(%d+)%.(%d+)', #lane + 2)
  return string.format('%s.%09d', theirs, n + 1)
end

-- Is it among those who wait behind their lane?
local function stands_behind(q, id, r)
  local lane = lane_of(r)
  return lane ~= nil and redis.call('ZSCORE', q.behind, member_of(lane, string.sub(r.entry, 2), id)) ~= false
end

-- One that waits behind a lane which nobody has would wait for ever.
local function is_led(q, r)
  return not is_behind(r) or redis.call('HEXISTS', q.lanes, (lane_of(r))) == 1
end

-- The first that waits and is still a job that does: its id and record. What is gone is passed over.
local function next_of(q, lane)
  for _ = 1, STALE_AT_ONCE do
    local member = first_behind(q, lane)
    if not member then return nil end
    local id = string.sub(member, -16)
    local rec = redis.call('HGET', q.jobs, id)
    local r = rec and not is_tombstone(rec) and read_record(rec)
    if r and is_behind(r) and lane_of(r) == lane and member_of(lane, string.sub(r.entry, 2), id) == member then
      return id, r, member
    end
    redis.call('ZREM', q.behind, member)
  end
end

local function let_go(q, lane, id, r, member)
  redis.call('ZREM', q.behind, member)
  redis.call('HSET', q.lanes, lane, id)
  make_ready(q, id, r)
  redis.call('HSET', q.jobs, id, write_record(r))
end

-- The lane's head is done with it: the next one may run.
local function advance(q, lane)
  local id, r, member = next_of(q, lane)
  if id then let_go(q, lane, id, r, member) else redis.call('HDEL', q.lanes, lane) end
end

-- Who may run, as far as that is known; nil where nobody has the lane, or one of whom nothing is known any more.
local function head_of(q, lane)
  local head = redis.call('HGET', q.lanes, lane)
  if head and (#head > 16 or redis.call('HEXISTS', q.jobs, head) == 1) then return head end
end

local function wait_behind(q, lane, place, id, r)
  redis.call('ZADD', q.behind, 0, member_of(lane, place, id))
  r.entry = '=' .. place
  redis.call('HSET', q.jobs, id, write_record(r))
end

-- May this job run now? Then it is the head of its lane, or has none, and the caller gives it an entry and writes its
-- record. Else it stands behind its lane, and its record is written. Who brings several names a table for the lanes
-- that nobody has, and calls `lead`: the first of them in place shall be the head, not the first that was looked at.
local function may_run(q, id, r, unled)
  local lane, order = lane_of(r)
  if not lane then return true end
  local head = head_of(q, lane)
  if head == id then return true end
  if head == 's' .. id or not head and not unled and not first_behind(q, lane) then
    redis.call('HSET', q.lanes, lane, id)
    return true
  end
  wait_behind(q, lane, place_in(q, lane, order), id, r)
  if not head then
    if unled then unled[#unled + 1] = lane else advance(q, lane) end
  end
  return false
end

local function lead(q, unled)
  for _, lane in ipairs(unled) do
    if not head_of(q, lane) then advance(q, lane) end
  end
end

-- It waits behind its lane no more.
local function step_out(q, id, r)
  if is_behind(r) then redis.call('ZREM', q.behind, member_of(lane_of(r) or '', string.sub(r.entry, 2), id)) end
end

-- The job needs its lane no more: it ends, or others go on before it.
local function leave_lane(q, id, r)
  local lane = lane_of(r)
  if not lane then return end
  step_out(q, id, r)
  local head = redis.call('HGET', q.lanes, lane)
  if head == id or head == 's' .. id then advance(q, lane) end
end

-- A suspended run has its lane until it ends.
local function keep_lane(q, id, r)
  local lane = lane_of(r)
  if not lane then return end
  local head = redis.call('HGET', q.lanes, lane)
  if not head or head == id then redis.call('HSET', q.lanes, lane, 's' .. id) end
end

-- A job of a lane at its publication; its record is written. What is due later stands in its lane from then on; but
-- before one that has run nobody goes.
local function place_in_lane(q, id, r, due, has_run)
  if not due then
    if not may_run(q, id, r) then return end
    make_ready(q, id, r)
    redis.call('HSET', q.jobs, id, write_record(r))
    return
  end
  redis.call('ZADD', q.due, due, id)
  local lane = lane_of(r)
  local head = head_of(q, lane)
  if not has_run then
    leave_lane(q, id, r)
  elseif head == 's' .. id or not head and not first_behind(q, lane) then
    redis.call('HSET', q.lanes, lane, id)
  end
  redis.call('HSET', q.jobs, id, write_record(r))
end
