<?php

/** Makes the calls told on standard input with the PHP client; one line of JSON for what became of each. */

declare(strict_types=1);

$work = json_decode(stream_get_contents(STDIN), true, 512, JSON_THROW_ON_ERROR);
foreach ($work['constants'] as $name => $value) {
    define($name, $value);
}
require $work['client'];

foreach ($work['calls'] as $call) {
    $pieces = [];
    $arguments = array_map(
        fn ($value) => is_array($value) && isset($value['base64']) ? base64_decode($value['base64']) : $value,
        $call['arguments'],
    );
    if ($call['pieces']) {
        $arguments['aPezzi'] = function (string $piece) use (&$pieces, $call): void {
            $pieces[] = $piece;
            if ($call['stops']) {
                throw new DomainException('enough');
            }
        };
    }
    try {
        $outcome = ['value' => ($call['function'])(...$arguments)];
    } catch (PepperException $e) {
        $outcome = [
            'code' => $e->codice,
            'retryable' => $e->riprovabile,
            'status' => $e->stato,
            'retry_after' => $e->dopo,
            'request_id' => $e->richiesta,
            'idempotency_key' => $e->idempotenza,
            'text' => $e . "\n" . $e->getMessage(),
        ];
    } catch (DomainException $e) {
        $outcome = ['stopped' => $e->getMessage()];
    }
    echo json_encode($outcome + ['pieces' => $pieces], JSON_THROW_ON_ERROR), "\n";
}
