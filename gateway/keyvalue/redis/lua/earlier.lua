-- What lies under an idempotency key, without claiming it.
-- KEYS: claim   ARGV: fingerprint, now
-- Replies 'kept' and the answer, 'noted' and the note, 'mismatch', or 'none' (free or running).
local found = redis.call('HMGET', KEYS[1], 'f', 'l', 'k', 'n')
if not found[1] then
  return {'none'}
end
local same = found[1] == ARGV[1]
if found[3] then
  if tonumber(ARGV[2]) >= tonumber(found[3]) + KEPT_SECONDS then
    return {'none'}
  end
  if not same then
    return {'mismatch'}
  end
  return found[4] and {'noted', found[4]} or {'kept', redis.call('HGET', KEYS[1], 'a')}
end
if same or tonumber(found[2]) <= server_time() then
  return {'none'}
end
return {'mismatch'}
