package Redisjobs;

# Asks redisjobs for jobs, on a DBD::Pg handle of yours: whatever transaction it is in, the job is part of it.

use strict;
use warnings;
use Carp qw(croak);
use Exporter qw(import);
use JSON::PP ();

our @EXPORT_OK = qw(enqueue enqueue_many);

my @OPTIONS = qw(queue run_at delay idempotency_key key_window priority max_attempts
    expires_at tenant_id traceparent enqueued_by headers id
    version lane share_key key_policy key_wait key_longest result_ttl);
my %KNOWN = map { $_ => 1 } @OPTIONS;

# characters, for the driver encodes them; big integers and floats stay what they are
my $json = JSON::PP->new->allow_bignum;

# Asks for one job; answers its id. $input is a hash of arguments, or JSON text.
sub enqueue {
    my ($db, $job, $input, %options) = @_;
    my @names = sort keys %options;
    for my $name (grep { !$KNOWN{$_} } @names) {
        croak "$name is no option of a job: pass one of " . join ', ', @OPTIONS;
    }
    my $given = join '', map { ", $_ => ?" } @names;
    my @values = map { $_ eq 'headers' ? to_json($options{$_}) : text($options{$_}) } @names;
    my ($id) = $db->selectrow_array("SELECT redisjobs.enqueue(?, ?$given)", undef, text($job), to_json($input // {}), @values);
    return $id;
}

# Asks for many jobs of one kind in one statement, in this order; answers how many.
sub enqueue_many {
    my ($db, $job, $inputs, %options) = @_;
    return $db->do(<<'SQL', undef, text($job), text($options{queue} // 'default'), to_json($inputs));
INSERT INTO redisjobs.outbox (job, queue, input) SELECT ?, ?, value FROM json_array_elements(?::json)
SQL
}

sub to_json {
    my ($value) = @_;
    return text(ref $value ? $json->encode($value) : $value);
}

# The driver would cut a text at its first NUL character and say nothing.
sub text {
    my ($value) = @_;
    croak 'a text has a NUL character, which no database can store: leave it out' if defined $value && $value =~ /\0/;
    croak 'a text has a lone surrogate, which is no character' if defined $value && $value =~ /[\x{D800}-\x{DFFF}]/;
    return $value;
}

1;
