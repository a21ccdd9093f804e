# perl demo.pl ada@example.com: places an order; its mail goes out if, and only if, the order is committed.
use strict;
use warnings;
use DBI;
use FindBin;
use lib $FindBin::Bin;
use Redisjobs qw(enqueue);

my $db = DBI->connect('dbi:Pg:', undef, undef, { RaiseError => 1 });    # PGHOST, PGDATABASE, PGUSER, … say where
my $email = shift @ARGV // 'ada@example.com';

$db->begin_work;
my ($order_id) = $db->selectrow_array('INSERT INTO orders (email) VALUES (?) RETURNING id', undef, $email);
enqueue($db, 'send_confirmation', { order_id => $order_id + 0, email => $email }, queue => 'mail');
$db->commit;    # a die before this line ends the program, and with it the transaction

print "order $order_id is committed, and with it its mail\n";
