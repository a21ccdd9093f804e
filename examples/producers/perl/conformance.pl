# Does what the lines on stdin say, and answers each with a line: how the tests drive every language alike.
use strict;
use warnings;
use DBI;
use FindBin;
use JSON::PP;
use lib $FindBin::Bin;
use Redisjobs qw(enqueue enqueue_many);

my $db = DBI->connect('dbi:Pg:', undef, undef, { RaiseError => 1, PrintError => 0, PrintWarn => 0 });
my $reader = JSON::PP->new->utf8->allow_bignum;
my $writer = JSON::PP->new->ascii;
local $| = 1;

my %commands = (
    begin       => sub { $db->begin_work; undef },
    commit      => sub { $db->commit; undef },
    rollback    => sub { $db->rollback; undef },
    savepoint   => sub { $db->pg_savepoint($_[0]{name}); undef },
    rollback_to => sub { $db->pg_rollback_to($_[0]{name}); undef },
    sql         => sub { $db->do($_[0]{text}); undef },
    enqueue     => sub { my ($asked) = @_; enqueue($db, $asked->{job}, $asked->{input}, %{ $asked->{options} // {} }) },
    enqueue_many => sub { my ($asked) = @_; 0 + enqueue_many($db, $asked->{job}, $asked->{input}, %{ $asked->{options} }) },
    enqueue_no_text => sub { no warnings; enqueue($db, $_[0]{job}, { text => "\x{D800}" }) },
    enqueue_nan => sub { enqueue($db, $_[0]{job}, { number => 'inf' - 'inf' }) },
);

while (my $line = <STDIN>) {
    my $command = $reader->decode($line);
    my $answer = eval { { answer => $commands{ $command->{do} }->($command) } };
    if (!$answer) {
        my ($constraint) = $@ =~ /constraint "(\w+)"/;
        $answer = { error => "$@", sqlstate => $db->state || undef, constraint => $constraint };
    }
    print $writer->encode($answer), "\n";
}
$db->disconnect;
