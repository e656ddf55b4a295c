<?php

/**
 * PHP's memcached extension (libmemcached, classic text protocol) against HOST:PORT, value by
 * value and byte for byte. It stops at the first difference; if there is none, its last line is
 * `N checks passed`. It empties the server.
 *
 * Left out: get-and-touch, which the extension does not offer.
 */

declare(strict_types=1);

const TIMEOUT_MS = 10_000;
const KEY_BYTES_MAX = 250;
// The item limit is 1 MiB including its header and key.
const VALUE_BYTES_LARGE = 1024 * 1024 - 1024;
const VALUE_BYTES_TOO_LARGE = 1024 * 1024 + 1;
const MULTIGET_KEYS = 500;
// No item outlives its time by more than this, whatever the granularity of the server's clock.
const EXPIRY_DEADLINE_S = 8.0;
const POLL_US = 50_000;

/** Counts what held; leaves the program at the first thing that did not. */
final class Checks
{
    private int $count = 0;

    public function equal(string $what, mixed $got, mixed $want): void
    {
        if ($got !== $want) {
            fail("$what: got " . shown($got) . ', want ' . shown($want));
        }
        $this->count++;
    }

    public function that(string $what, bool $held): void
    {
        $this->equal($what, $held, true);
    }

    /** Holds once $call is true, however long that takes up to the deadline. */
    public function soon(string $what, callable $call): void
    {
        for ($end = microtime(true) + EXPIRY_DEADLINE_S; !$call(); usleep(POLL_US)) {
            if (microtime(true) > $end) {
                fail("$what: not within " . EXPIRY_DEADLINE_S . ' s');
            }
        }
        $this->count++;
    }

    public function done(): void
    {
        echo "$this->count checks passed\n";
    }
}

function fail(string $message): never
{
    fwrite(STDERR, "$message\n");
    exit(1);
}

function shown(mixed $value): string
{
    $text = addcslashes(var_export($value, true), "\0..\37\177..\377");
    return strlen($text) <= 160 ? $text : substr($text, 0, 160) . '...';
}

function connect(string $host, int $port, array $options = []): Memcached
{
    $m = new Memcached();
    $m->setOptions($options + [
        Memcached::OPT_BINARY_PROTOCOL => false,
        Memcached::OPT_COMPRESSION => false,
        Memcached::OPT_TCP_NODELAY => true,
        Memcached::OPT_CONNECT_TIMEOUT => TIMEOUT_MS,
        Memcached::OPT_POLL_TIMEOUT => TIMEOUT_MS,
        Memcached::OPT_SEND_TIMEOUT => TIMEOUT_MS * 1000,
        Memcached::OPT_RECV_TIMEOUT => TIMEOUT_MS * 1000,
    ]);
    $m->addServer($host, $port);
    return $m;
}

/** Never compressible, the same in every run. */
function incompressible(int $size): string
{
    $blocks = [];
    for ($n = 0; $n * 32 < $size; $n++) {
        $blocks[] = hash('sha256', (string) $n, true);
    }
    return substr(implode($blocks), 0, $size);
}

/** The values that a parser might stumble over. */
function values(string $large): array
{
    return [
        'empty' => '',
        'one byte' => 'x',
        'a marked value' => 'byte-for-byte',
        'line ends' => "\r\nfirst\r\nsecond\n\r\r\n",
        'nuls' => "\0head\0\0tail\0",
        'every byte' => str_repeat(implode(array_map('chr', range(0, 255))), 5),
        'a reply' => "VALUE fake 0 3\r\nxyz\r\nEND\r\n",
        'a command' => "quit\r\nflush_all\r\n",
        'just past a packet' => substr($large, 0, 1461),
        'past most buffers' => substr($large, 0, 70_001),
    ];
}

function storage(Checks $c, Memcached $m, Memcached $packed, string $large): void
{
    foreach (values($large) as $name => $value) {
        $c->equal("set $name", $m->set('s', $value), true);
        $c->equal("get $name", $m->get('s'), $value);
        $c->equal("set $name, compressed", $packed->set('z', $value), true);
        $c->equal("get $name, compressed", $packed->get('z'), $value);
    }
    $c->equal('get of a missing key', $m->get('missing'), false);
    $c->equal('is said to be not found', $m->getResultCode(), Memcached::RES_NOTFOUND);
    $c->equal('add to a present key', $m->add('s', 'no'), false);
    $c->equal('is said to be not stored', $m->getResultCode(), Memcached::RES_NOTSTORED);
    $c->equal('add to a free key', $m->add('added', 'yes'), true);
    $c->equal('the added value', $m->get('added'), 'yes');
    $c->equal('replace a missing key', $m->replace('missing', 'no'), false);
    $c->equal('replace a present key', $m->replace('added', "\0new\r\n"), true);
    $c->equal('append', $m->append('added', "\r\ntail"), true);
    $c->equal('prepend', $m->prepend('added', "head\0"), true);
    $c->equal('the joined value', $m->get('added'), "head\0\0new\r\n\r\ntail");
    $c->equal('append to a missing key', $m->append('missing', 'no'), false);
    $c->equal('nothing was made on the way', $m->get('missing'), false);
    $c->equal('delete', $m->delete('added'), true);
    $c->equal('delete again', $m->delete('added'), false);
    $c->equal('the deleted key', $m->get('added'), false);
}

function compareAndSwap(Checks $c, Memcached $m): void
{
    $m->set('c', 'first');
    ['value' => $value, 'cas' => $token] = $m->get('c', null, Memcached::GET_EXTENDED);
    $c->equal('gets', $value, 'first');
    $c->equal('cas with the token', $m->cas($token, 'c', 'second'), true);
    $c->equal('cas with the token spent', $m->cas($token, 'c', 'third'), false);
    $c->equal('is said to have changed', $m->getResultCode(), Memcached::RES_DATA_EXISTS);
    $c->equal('the swapped value', $m->get('c'), 'second');
    $c->equal('cas on a missing key', $m->cas($token, 'missing', 'no'), false);
    $c->equal('is said to be not found', $m->getResultCode(), Memcached::RES_NOTFOUND);
}

function counters(Checks $c, Memcached $m): void
{
    $c->equal('incr a missing key', $m->increment('n'), false);
    $m->set('n', 9);
    $c->equal('incr over a digit', $m->increment('n'), 10);
    $c->equal('the number keeps its type', $m->get('n'), 10);
    $c->equal('decr over a digit', $m->decrement('n'), 9);
    $c->equal('decr stops at zero', $m->decrement('n', 1000), 0);
    $m->set('n', 'word');
    $c->equal('incr a word', @$m->increment('n'), false);
    $c->equal('the word is unharmed', $m->get('n'), 'word');
}

function multigets(Checks $c, Memcached $m, string $large): void
{
    $items = [];
    $keys = [];
    for ($n = 0; $n < MULTIGET_KEYS; $n++) {
        $items["m$n"] = substr($large, $n, $n % 300);
        array_push($keys, "m$n", "absent$n");
    }
    $c->equal('setMulti', $m->setMulti($items), true);
    $found = $m->getMulti($keys);
    ksort($found);
    ksort($items);
    $c->equal('getMulti', $found, $items);
    $extended = $m->getMulti($keys, Memcached::GET_EXTENDED | Memcached::GET_PRESERVE_ORDER);
    $c->equal('getMulti in order', array_keys($extended), $keys);
    $tokens = array_column(array_filter($extended), 'cas');
    $c->equal('tokens differ', count(array_unique($tokens)), MULTIGET_KEYS);
    $m->getDelayed($keys);
    $c->equal('getDelayed', count($m->fetchAll()), MULTIGET_KEYS);
    $deleted = $m->deleteMulti(array_keys($items));
    $c->equal('deleteMulti', array_keys($deleted, true, true), array_keys($items));
    $c->equal('getMulti after deleteMulti', $m->getMulti($keys), []);
}

function types(Checks $c, Memcached $m, Memcached $packed): void
{
    foreach (["t\u{e9}xt", 7, PHP_INT_MIN, true, false, 1.5, null, [1, ['two' => [3]]]] as $value) {
        $m->set('t', $value);
        $got = $m->get('t', null, Memcached::GET_EXTENDED);
        $c->equal(gettype($value) . ' by its flags', $got['value'], $value);
    }
    $m->setOption(Memcached::OPT_USER_FLAGS, 65_535);
    $m->set('t', 'v');
    $c->equal('user flags', $m->get('t', null, Memcached::GET_EXTENDED)['flags'], 65_535);
    $m->setOption(Memcached::OPT_USER_FLAGS, -1);
    $story = str_repeat("the same line again\n", 5000);
    $packed->set('t', $story);
    $c->equal('a compressed text', $packed->get('t'), $story);
}

function limits(Checks $c, Memcached $m, string $large): void
{
    $c->equal('set a large value', $m->set('large', $large), true);
    $c->equal('get a large value', $m->get('large'), $large);
    $longKey = str_repeat('k', KEY_BYTES_MAX);
    $c->equal('set a 250-byte key', $m->set($longKey, 'v'), true);
    $c->equal('get a 250-byte key', $m->get($longKey), 'v');
    $m->set('big', 'old');
    $huge = str_repeat("\0", VALUE_BYTES_TOO_LARGE);
    $c->equal('set a value too large', $m->set('big', $huge), false);
    $c->equal('is said to be too big', $m->getResultCode(), Memcached::RES_E2BIG);
    $c->equal('the old value is gone', $m->get('big'), false);
    $c->equal('the client still serves', $m->get('large'), $large);
}

function noreply(Checks $c, Memcached $m, Memcached $quiet): void
{
    $quiet->set('q', 'b');
    $quiet->append('q', 'c');
    $quiet->prepend('q', 'a');
    // A read on the same connection is answered after all that went before.
    $c->equal('set, append and prepend', $quiet->get('q'), 'abc');
    $c->equal('seen from elsewhere', $m->get('q'), 'abc');
    $quiet->delete('q');
    $c->equal('delete', $quiet->get('q'), false);
}

function lifetimes(Checks $c, Memcached $m): void
{
    $m->set('touched', 'v', 2);
    $m->set('brief', 'v', 2);
    $m->set('long', 'v', 1000);
    $m->set('dated', 'v', time() + 1000);
    $c->equal('not yet expired', $m->get('brief'), 'v');
    $c->equal('touch', $m->touch('touched', 1000), true);
    $c->equal('touch a missing key', $m->touch('missing', 1000), false);
    $m->set('past', 'v', 1_000_000_000);
    $c->equal('a date long past', $m->get('past'), false);
    $c->equal('touch to a second', $m->touch('long', 1), true);
    $c->soon('expiry after set', fn () => $m->get('brief') === false);
    $c->soon('expiry after touch', fn () => $m->get('long') === false);
    $c->equal('touch lengthened a life', $m->get('touched'), 'v');
    $c->equal('a date to come', $m->get('dated'), 'v');
}

function server(Checks $c, Memcached $m, Memcached $other): void
{
    $c->that('version', ctype_digit(current($m->getVersion())[0]));
    $before = current($m->getStats());
    $m->set('s', 'v');
    $m->get('s');
    $m->get('missing');
    $after = current($m->getStats());
    $steps = ['cmd_set' => 1, 'cmd_get' => 2, 'get_hits' => 1, 'get_misses' => 1];
    foreach (getenv('RING') ? [] : $steps as $name => $more) {
        $c->equal("stats: $name", (int) $after[$name] - (int) $before[$name], $more);
    }
    $c->that('stats: curr_items', $after['curr_items'] > 0);
    $other->set('other', 'v');
    $c->equal('another connection', $m->get('other'), 'v');
    $c->equal('flush_all', $m->flush(), true);
    $c->equal('after flush_all', $m->getMulti(['s', 'other', 'large']), []);
    $c->equal('set after flush_all', $m->set('s', 'v'), true);
    $c->equal('get after flush_all', $m->get('s'), 'v');
    $c->equal('flush_all in two seconds', $m->flush(2), true);
    $c->soon('after the delayed flush_all', fn () => $m->get('s') === false);
    // A server may still drop what is written within the second of the flush.
    $c->soon('set sticks again', fn () => $m->set('s', 'v') && $m->get('s') === 'v');
}

function main(array $argv): void
{
    if (count($argv) !== 2 || !preg_match('/^(.+):(\d+)$/', $argv[1], $where)) {
        fail("usage: $argv[0] HOST:PORT");
    }
    [, $host, $port] = $where;
    $port = (int) $port;
    $c = new Checks();
    $m = connect($host, $port);
    $packed = connect($host, $port, [Memcached::OPT_COMPRESSION => true]);
    $quiet = connect($host, $port, [Memcached::OPT_NOREPLY => true]);
    $large = incompressible(VALUE_BYTES_LARGE);
    $m->flush();
    storage($c, $m, $packed, $large);
    compareAndSwap($c, $m);
    counters($c, $m);
    multigets($c, $m, $large);
    types($c, $m, $packed);
    limits($c, $m, $large);
    noreply($c, $m, $quiet);
    lifetimes($c, $m);
    server($c, $m, connect($host, $port));
    $c->done();
}

main($argv);
