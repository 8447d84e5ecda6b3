-- Forgets what was spent on a day; a total that somebody is reading just now is not believed either.
-- KEYS: budget   ARGV: day, a token never used before
redis.call('HDEL', KEYS[1], ARGV[1] .. ':spent', ARGV[1] .. ':epoch')
return redis.call('HSET', KEYS[1], ARGV[1] .. ':token', ARGV[2])
