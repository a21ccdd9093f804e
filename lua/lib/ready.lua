-- ready: where a job goes that may run: to the front, to its share, or to the stream of its band.
-- uses lib/record.lua lib/shares.lua

-- The one place where a job that waited elsewhere gets its entry; the caller writes its record.
local function make_ready(q, id, r)
  local share = not r.front and has(r.flags, 'x') and extras_of(r).share or ''
  if share ~= '' then
    r.entry = join_share(q, id, share, r.band)
  else
    local stream = stream_of(q, r)
    r.entry = redis.call('XADD', stream, '*', 'j', id)
  end
end
