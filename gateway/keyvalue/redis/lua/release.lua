-- Undoes the admission of a call that spent nothing.
-- KEYS: window, reserved, leases, budget, finished, claim   ARGV: request, '1' or '' (with a claim)
if redis.call('EXISTS', KEYS[5]) == 1 then
  return 0
end
-- As in settling, the first write needs no memory.
redis.call('ZREM', KEYS[1], ARGV[1])
drop_reservation(KEYS[2], KEYS[3], KEYS[4], ARGV[1])
if ARGV[2] ~= '' then
  drop_claim(KEYS[6], ARGV[1])
end
redis.call('SET', KEYS[5], '1', 'EX', FINISHED_SECONDS)
return 1
