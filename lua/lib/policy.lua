-- policy: what becomes of a job whose key another one has, where it says more of that than to end as its duplicate.
-- uses lib/record.lua lib/place.lua lib/ending.lua
--
-- A policy is a word. What are distances in an item are times in a record.
--     t:left                  throttle: ms for which the key counts from the job's start, 0: no more
--     d:wait:longest:order    debounce: ms to wait, ms to the end of the burst or -, place in line or - (the latest)
--     r:order:replaced        replace: place in line, and of a record the job that it has replaced, in hex, or -
-- An item whose place in line is before that of the job which has the key comes late, or again: it is the duplicate.

local function in_hex(id)
  return (string.gsub(id, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

local function as_uuid(id)
  return (string.gsub(in_hex(id), '^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)', '%1-%2-%3-%4-'))
end

local function is_before(order, theirs)
  local mine, other = tonumber(order), tonumber(theirs)
  return mine ~= nil and other ~= nil and mine <= other
end

-- The other job that has the key, and while it lives its record and its run.
local function holder_of(q, key, id)
  local owner = redis.call('HGET', q.keys, key)
  if not owner or owner == id then return nil end
  local rec = q.fresh[owner] and q.writes[q.fresh[owner]] or redis.call('HGET', q.jobs, owner)
  if not rec or is_tombstone(rec) then return owner end
  return owner, read_record(rec), read_run(redis.call('HGET', q.runs, owner))
end

-- What a job tells that ends for another one: packed as every record is.
local function record_of(why, by)
  local told = '\163why\217' .. string.char(#why) .. why
  return by and '\130\162by\196\016' .. by .. told or '\129' .. told
end

local function take_key(q, key, id)
  redis.call('HSET', q.keys, key, id)
  redis.call('ZREM', q.windows, key)
end

local function throttle(q, id, x, delay, now)
  local left = tonumber(string.sub(x.policy, 3))
  if left == 0 then return 'new', nil, delay end
  local owner, why = key_owner(q, x.key, id, now)
  if owner then return why, owner end
  redis.call('HSET', q.keys, x.key, id)
  redis.call('ZADD', q.windows, now + math.max(0, delay) + left, x.key)
  return 'new', nil, delay
end

-- Has its body run? The first start of one that waits for a limit ended before that.
local function has_begun(r, run)
  return run.attempts > 0 or run.starts > (has(r.flags, 'l') and 1 or 0)
end

-- One that has not begun makes way for a later one; what has begun goes on, and the later one waits for itself.
local function debounce(q, id, x, delay, now)
  local wait, longest, order = string.match(x.policy, '^d:(%d+):([%d-]+):([%d-]+)$')
  local ends = longest ~= '-' and now + longest or nil
  local owner, r, run = holder_of(q, x.key, id)
  local theirs = r and string.match(policy_of(r), '^d:') and policy_of(r)
  if owner and not theirs then
    local known, why = key_owner(q, x.key, id, now)
    if known and (r or why == 'kept') then return why, known end
  elseif theirs and not has_begun(r, run) then
    local their_end, their_order = string.match(theirs, '^d:%d+:([%d-]+):([%d-]+)$')
    if is_before(order, their_order) then return 'dup', owner end
    local record = record_of('a later call of its burst took its place', id)
    end_job(q, q.batch, owner, r, run, 'deduplicated', record, nil, now)
    if ends and their_end ~= '-' then ends = math.min(ends, tonumber(their_end)) end
  end
  take_key(q, x.key, id)
  local due = now + wait
  if ends then due = math.min(due, ends) end
  x.policy = table.concat({ 'd', wait, ends and digits(ends) or '-', order }, ':')
  return 'new', nil, math.max(delay, due - now)
end

-- What waits ends here, what runs is asked to; of a suspended run Redis has nothing but its key. The relay asks for
-- their end in Postgres too: it is told until this job ends.
local function replace(q, id, x, delay, now)
  local order, replaced = string.match(x.policy, '^r:([%d-]+):'), '-'
  local owner, r, run = holder_of(q, x.key, id)
  local ends = owner and tonumber(redis.call('ZSCORE', q.windows, x.key) or 0)
  if r then
    local theirs = string.match(policy_of(r), '^r:([%d-]+):')
    if is_before(order, theirs) then return 'dup', owner end
    if r.entry == '-' or run.entry ~= r.entry then
      local record = record_of('job ' .. as_uuid(id) .. ' replaced it')
      end_job(q, q.batch, owner, r, run, 'cancelled', record, nil, now)
    else
      r.flags, replaced = with(r.flags, 'c'), owner
      redis.call('HSET', q.jobs, owner, write_record(r))
      redis.call('SADD', q.cancels, owner)
    end
  elseif owner and ends >= UNTIL_IT_ENDS then
    replaced = owner
  elseif owner and ends > now then
    return 'kept', owner
  end
  take_key(q, x.key, id)
  if replaced == '-' then return 'new', nil, delay end
  x.policy = 'r:' .. order .. ':' .. in_hex(replaced)
  return 'replaces', replaced, delay
end

local BY_POLICY = { t = throttle, d = debounce, r = replace }

-- Whether the job is placed (new, replaces) or not (dup, kept), the other job, and the ms until it is due. Changes the
-- policy in `x`, the extras of the item, to that of its record.
local function by_policy(q, id, x, delay, now)
  return BY_POLICY[string.sub(x.policy, 1, 1)](q, id, x, delay, now)
end
