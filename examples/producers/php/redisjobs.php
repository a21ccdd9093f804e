<?php

declare(strict_types=1);

namespace Redisjobs;

use DateTimeInterface;
use InvalidArgumentException;
use PDO;

const OPTIONS = [
    'queue', 'run_at', 'delay', 'idempotency_key', 'key_window', 'priority', 'max_attempts',
    'expires_at', 'tenant_id', 'traceparent', 'enqueued_by', 'headers', 'id',
    'version', 'lane', 'share_key', 'key_policy', 'key_wait', 'key_longest', 'result_ttl',
];

/**
 * Asks for one job on a PDO connection of yours: whatever transaction it is in, the job is part of it.
 *
 * @param array|object|string $input the arguments by name, or JSON text
 * @return string the job's id
 */
function enqueue(PDO $db, string $job, array|object|string $input = [], array $options = []): string
{
    if ($unknown = array_diff(array_keys($options), OPTIONS)) {
        throw new InvalidArgumentException(reset($unknown) . ' is no option of a job: pass one of ' . implode(', ', OPTIONS));
    }
    $given = implode('', array_map(fn ($name) => ", $name => :$name", array_keys($options)));
    $values = ['job' => text($job), 'input' => to_json($input)];
    foreach ($options as $name => $value) {
        $values[$name] = $name === 'headers' ? to_json($value) : text($value);
    }
    $statement = $db->prepare("SELECT redisjobs.enqueue(:job, :input$given)");
    $statement->execute($values);
    return $statement->fetchColumn();
}

/** Asks for many jobs of one kind in one statement, in this order; answers how many. */
function enqueue_many(PDO $db, string $job, array $inputs, string $queue = 'default'): int
{
    $statement = $db->prepare(
        'INSERT INTO redisjobs.outbox (job, queue, input)
         SELECT :job, :queue, value FROM json_array_elements(CAST(:inputs AS json))'
    );
    $inputs = array_map(fn ($input) => $input === [] ? (object) [] : $input, $inputs);
    $statement->execute(['job' => text($job), 'queue' => text($queue), 'inputs' => to_json($inputs)]);
    return $statement->rowCount();
}

/** An empty array is an object without arguments here; 1.0 stays a float. Throws for NaN and for text that is no UTF-8. */
function to_json(array|object|string $value): string
{
    if (is_string($value)) {
        return text($value);
    }
    $flags = JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES;
    return json_encode($value === [] ? (object) [] : $value, $flags);
}

/** A moment goes with its offset. The driver would cut a text at its first NUL character and say nothing. */
function text(mixed $value): mixed
{
    if (is_string($value) && str_contains($value, "\0")) {
        throw new InvalidArgumentException('a text has a NUL character, which no database can store: leave it out');
    }
    return $value instanceof DateTimeInterface ? $value->format('Y-m-d\TH:i:s.uP') : $value;
}
