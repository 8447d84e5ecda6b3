-- The projects that may have reservations.
-- KEYS: the list
return redis.call('ZRANGE', KEYS[1], 0, -1)
