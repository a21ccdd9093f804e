-- holder: who has an idempotency key now, or in its window?
--
-- KEYS    jobs keys windows
-- ARGV    key
-- Reply   the job's id, or ''
-- Cost    O(1)
-- uses lib/record.lua lib/place.lua
local jobs, keys, windows = unpack(KEYS)
local key = unpack(ARGV, 1, 1)

local owner = key_owner({ jobs = jobs, keys = keys, windows = windows, fresh = {} }, key, '', now_ms())
return owner or ''
