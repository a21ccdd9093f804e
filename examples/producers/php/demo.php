<?php

// php demo.php ada@example.com: places an order; its mail goes out if, and only if, the order is committed.
declare(strict_types=1);

ini_set('display_errors', 'stderr'); // whatever php.ini says

require __DIR__ . '/redisjobs.php';

$db = new PDO('pgsql:'); // PGHOST, PGDATABASE, PGUSER, … say where
$email = $argv[1] ?? 'ada@example.com';

$db->beginTransaction();
$insert = $db->prepare('INSERT INTO orders (email) VALUES (?) RETURNING id');
$insert->execute([$email]);
$orderId = $insert->fetchColumn();
Redisjobs\enqueue($db, 'send_confirmation', ['order_id' => $orderId, 'email' => $email], ['queue' => 'mail']);
$db->commit(); // an exception before this line ends the program, and with it the transaction

echo "order $orderId is committed, and with it its mail\n";
