-- What lies under an idempotency key, without claiming it.
-- KEYS: claim   ARGV: fingerprint, now
-- Replies 'kept' and the answer, 'mismatch', or 'none' (free or running).
local found = redis.call('HMGET', KEYS[1], 'f', 'l', 'k')
if not found[1] then
  return {'none'}
end
local same = found[1] == ARGV[1]
if found[3] then
  if tonumber(ARGV[2]) >= tonumber(found[3]) + KEPT_SECONDS then
    return {'none'}
  end
  return same and {'kept', redis.call('HGET', KEYS[1], 'a')} or {'mismatch'}
end
if same or tonumber(found[2]) <= server_time() then
  return {'none'}
end
return {'mismatch'}
