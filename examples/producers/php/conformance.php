<?php

// Does what the lines on stdin say, and answers each with a line: how the tests drive every language alike.
declare(strict_types=1);

require __DIR__ . '/redisjobs.php';

$db = new PDO('pgsql:');

function carry_out(PDO $db, object $command): string|int|null
{
    $options = (array) ($command->options ?? []);
    if (isset($options['run_at'])) {
        $options['run_at'] = new DateTimeImmutable($options['run_at']);
    }
    switch ($command->do) {
        case 'begin':
            $db->beginTransaction();
            return null;
        case 'commit':
            $db->commit();
            return null;
        case 'rollback':
            $db->rollBack();
            return null;
        case 'savepoint':
            $db->exec("SAVEPOINT $command->name");
            return null;
        case 'rollback_to':
            $db->exec("ROLLBACK TO SAVEPOINT $command->name");
            return null;
        case 'sql':
            $db->exec($command->text);
            return null;
        case 'enqueue':
            return Redisjobs\enqueue($db, $command->job, $command->input ?? [], $options);
        case 'enqueue_many':
            return Redisjobs\enqueue_many($db, $command->job, $command->input, $options['queue']);
        case 'enqueue_no_text':
            return Redisjobs\enqueue($db, $command->job, ['text' => "\xED\xA0\x80"]);
        case 'enqueue_nan':
            return Redisjobs\enqueue($db, $command->job, ['number' => NAN]);
    }
    throw new InvalidArgumentException("nobody knows how to $command->do");
}

while (($line = fgets(STDIN)) !== false) {
    try {
        $answer = ['answer' => carry_out($db, json_decode($line, flags: JSON_THROW_ON_ERROR))];
    } catch (PDOException $error) {
        preg_match('/constraint "(\w+)"/', $error->getMessage(), $found);
        $answer = ['error' => $error->getMessage(), 'sqlstate' => $error->getCode(), 'constraint' => $found[1] ?? null];
    } catch (Exception $error) {
        $answer = ['error' => $error->getMessage(), 'sqlstate' => null, 'constraint' => null];
    }
    echo json_encode($answer, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
