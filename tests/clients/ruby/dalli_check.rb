# frozen_string_literal: true

# Ruby's dalli (meta protocol; DALLI_PROTOCOL=binary for the binary one) against HOST:PORT, value
# by value and byte for byte. It stops at the first difference; if there is none, its last line is
# `N checks passed`. It empties the server.

require 'dalli'
require 'digest'
require 'logger'

TIMEOUT_S = 10
KEY_BYTES_MAX = 250
# The item limit is 1 MiB including its header and key.
VALUE_BYTES_LARGE = (1024 * 1024) - 1024
VALUE_BYTES_TOO_LARGE = (1024 * 1024) + 1
MULTIGET_KEYS = 500
# No item outlives its time by more than this, whatever the granularity of the server's clock.
EXPIRY_DEADLINE_S = 8
POLL_S = 0.05
RAW = { raw: true }.freeze

# Never compressible, the same in every run.
LARGE = (0...(VALUE_BYTES_LARGE / 32)).map { |n| Digest::SHA256.digest(n.to_s) }.join.freeze

# The values that a parser might stumble over.
VALUES = {
  'empty' => '',
  'one byte' => 'x',
  'a marked value' => 'byte-for-byte',
  'line ends' => "\r\nfirst\r\nsecond\n\r\r\n",
  'nuls' => "\0head\0\0tail\0",
  'every byte' => (0..255).to_a.pack('C*') * 5,
  'a reply' => "VALUE fake 0 3\r\nxyz\r\nEND\r\n",
  'a meta reply' => "HD\r\nMN\r\nVA 2 \r\nhi\r\n",
  'a command' => "quit\r\nflush_all\r\n",
  'just past a packet' => LARGE[0, 1461],
  'past most buffers' => LARGE[0, 70_001]
}.transform_values(&:b).freeze

def shown(value)
  text = value.inspect
  text.length <= 160 ? text : "#{text[0, 70]} ... #{text[-70, 70]} (#{value.size} long)"
end

# Counts what held; leaves the program at the first thing that did not.
class Checks
  def initialize
    @count = 0
  end

  def equal(what, got, want)
    got = got.b if got.is_a?(String) && want.is_a?(String) && want.encoding == Encoding::BINARY
    abort "#{what}: got #{shown(got)}, want #{shown(want)}" unless got == want
    @count += 1
  end

  def that(what, held)
    equal(what, held ? true : false, true)
  end

  def raises(what)
    got = yield
  rescue Dalli::DalliError
    @count += 1
  else
    abort "#{what}: got #{shown(got)}, want an error"
  end

  # Holds once the block is true, however long that takes up to the deadline.
  def soon(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + EXPIRY_DEADLINE_S
    until yield
      late = Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      abort "#{what}: not within #{EXPIRY_DEADLINE_S} s" if late
      sleep POLL_S
    end
    @count += 1
  end

  def done
    puts "#{@count} checks passed"
  end
end

def connect(address, **options)
  protocol = ENV.fetch('DALLI_PROTOCOL', 'meta').to_sym
  chosen = { protocol: protocol, compress: false, socket_timeout: TIMEOUT_S, namespace: nil }
  # The client refuses large values by itself unless told that the server takes them.
  Dalli::Client.new(address, value_max_bytes: 4 * 1024 * 1024, **chosen, **options)
end

# The value as a multiget has it: in the meta protocol this version's plain get ends a value at its
# first line end.
def whole(client, key)
  client.get_multi([key])[key]
end

# The same for any value: its multiget takes an empty one for the end of all replies, and leaves the
# true end unread where that comes in a packet of its own.
def stored(client, key, value)
  value.empty? ? client.get(key) : whole(client, key)
end

def storage(c, m, packed)
  VALUES.each do |name, value|
    c.that("set #{name}", m.set('s', value, 0, RAW))
    c.equal("get #{name}", stored(m, 's', value), value)
    c.that("set #{name}, compressed", packed.set('z', value))
    c.equal("get #{name}, compressed", stored(packed, 'z', value), value)
  end
  c.equal('get of a missing key', m.get('missing'), nil)
  c.that('add to a present key', !m.add('s', 'no', 0, RAW))
  c.that('add to a free key', m.add('added', 'yes', 0, RAW))
  c.equal('the added value', m.get('added'), 'yes')
  c.that('replace a missing key', !m.replace('missing', 'no', 0, RAW))
  c.that('replace a present key', m.replace('added', "\0new\r\n", 0, RAW))
  c.that('append', m.append('added', "\r\ntail"))
  c.that('prepend', m.prepend('added', "head\0"))
  c.equal('the joined value', whole(m, 'added'), "head\0\0new\r\n\r\ntail")
  c.that('append to a missing key', !m.append('missing', 'no'))
  c.equal('nothing was made on the way', m.get('missing'), nil)
  c.that('delete', m.delete('added'))
  c.that('delete again', !m.delete('added'))
  c.equal('the deleted key', m.get('added'), nil)
  c.equal('fetch fills', m.fetch('filled', 100) { 'once' }, 'once')
  c.equal('fetch finds', m.fetch('filled', 100) { abort 'fetch: asked twice' }, 'once')
end

def compare_and_swap(c, m)
  m.set('c', 'first')
  value, token = m.get_cas('c')
  c.equal('gets', value, 'first')
  c.that('cas with the token', m.set_cas('c', 'second', token))
  c.that('cas with the token spent', !m.set_cas('c', 'third', token))
  c.equal('the swapped value', m.get('c'), 'second')
  c.that('delete with the token spent', !m.delete_cas('c', token))
  c.that('cas by a block', m.cas('c') { |old| "#{old} and more" })
  c.equal('the value of the block', m.get('c'), 'second and more')
  c.equal('cas on a missing key', m.cas('missing') { 'no' }, nil)
  c.that('delete with the token', m.delete_cas('c', m.get_cas('c').last))
end

def counters(c, m)
  c.equal('incr a missing key', m.incr('n', 1), nil)
  c.equal('incr with a start', m.incr('n', 1, 100, 9), 9)
  c.equal('incr over a digit', m.incr('n', 1), 10)
  c.equal('decr over a digit', m.decr('n', 1), 9)
  c.equal('decr stops at zero', m.decr('n', 1000), 0)
  m.set('n', '18446744073709551615', 0, RAW)
  c.equal('incr wraps at 64 bits', m.incr('n', 2), 1)
  m.set('n', 'word', 0, RAW)
  c.raises('incr a word') { m.incr('n', 1) }
  c.equal('the word is unharmed', m.get('n'), 'word')
end

def multigets(c, m)
  items = (0...MULTIGET_KEYS).to_h { |n| ["m#{n}", LARGE[n, 1 + (n % 300)]] }
  m.quiet { items.each { |key, value| m.set(key, value, 0, RAW) } }
  absent = (0...MULTIGET_KEYS).map { |n| "absent#{n}" }
  keys = items.keys.zip(absent).flatten
  c.equal('get_multi', m.get_multi(keys), items)
  tokens = m.get_multi_cas(keys)
  c.equal('get_multi_cas', tokens.transform_values(&:first), items)
  c.equal('tokens differ', tokens.values.map(&:last).uniq.size, MULTIGET_KEYS)
  m.quiet { items.each_key { |key| m.delete(key) } }
  c.equal('get_multi after deletes', m.get_multi(keys), {})
end

def types(c, m, packed)
  ["t\u00e9xt", 7, -(2**70), 1.5, true, :symbol, [1, { 'two' => [3] }]].each do |value|
    m.set('t', value)
    c.equal("#{value.class} by its flags", m.get('t'), value)
  end
  story = "the same line again\n" * 5000
  packed.set('t', story)
  c.equal('a compressed text', whole(packed, 't'), story)
end

def limits(c, m)
  c.that('set a large value', m.set('large', LARGE, 0, RAW))
  c.equal('get a large value', whole(m, 'large'), LARGE)
  long_key = 'k' * KEY_BYTES_MAX
  c.that('set a 250-byte key', m.set(long_key, 'v'))
  c.equal('get a 250-byte key', m.get(long_key), 'v')
  # A key outside ASCII travels in base64 and comes back as itself.
  c.that('set a key outside ASCII', m.set("\u043a\u043b\u044e\u0447", 'v'))
  c.equal('get a key outside ASCII', m.get("\u043a\u043b\u044e\u0447"), 'v')
  m.set('big', 'old')
  c.raises('set a value too large') { m.set('big', "\0" * VALUE_BYTES_TOO_LARGE, 0, RAW) }
  c.equal('the old value is gone', m.get('big'), nil)
  c.equal('the client still serves', whole(m, 'large'), LARGE)
end

def noreply(c, m)
  m.quiet do
    m.set('q', 'b', 0, RAW)
    m.append('q', 'c')
    m.prepend('q', 'a')
    m.add('q', 'no')
    m.replace('missing', 'no')
    m.set('n', '5', 0, RAW)
    m.incr('n', 10)
    m.decr('n', 1)
  end
  c.equal('set, append, prepend and a vain add', m.get('q'), 'abc')
  c.equal('incr and decr', m.get('n'), '14')
  c.equal('a vain replace', m.get('missing'), nil)
end

def lifetimes(c, m)
  %w[touched fetched brief].each { |key| m.set(key, 'v', 2) }
  m.set('long', 'v', 1000)
  c.equal('not yet expired', m.get('brief'), 'v')
  c.equal('touch', m.touch('touched', 1000), true)
  c.equal('touch a missing key', m.touch('missing', 1000), nil)
  c.equal('get and touch', m.gat('fetched', 1000), 'v')
  c.equal('get and touch a missing key', m.gat('missing', 1000), nil)
  c.equal('touch to a second', m.touch('long', 1), true)
  c.soon('expiry after set') { m.get('brief').nil? }
  c.soon('expiry after touch') { m.get('long').nil? }
  c.equal('touch lengthened a life', m.get('touched'), 'v')
  c.equal('get and touch lengthened a life', m.get('fetched'), 'v')
end

def server(c, m, other)
  c.that('version', m.version.values.first.match?(/\A\d/))
  before = m.stats.values.first
  m.set('s', 'v')
  m.get('s')
  m.get('missing')
  after = m.stats.values.first
  steps = { 'cmd_set' => 1, 'cmd_get' => 2, 'get_hits' => 1, 'get_misses' => 1 }
  steps.clear unless ENV.fetch('RING', '').empty?
  steps.each do |name, more|
    c.equal("stats: #{name}", after[name].to_i - before[name].to_i, more)
  end
  c.that('stats settings', m.stats(:settings).values.first.key?('maxbytes'))
  other.set('other', 'v')
  c.equal('another connection', m.get('other'), 'v')
  c.that('flush_all', m.flush_all.all?)
  c.equal('after flush_all', m.get_multi(%w[s other large]), {})
  c.that('set after flush_all', m.set('s', 'v'))
  c.equal('get after flush_all', m.get('s'), 'v')
end

def main(args)
  abort "usage: #{$PROGRAM_NAME} HOST:PORT" unless args.length == 1 && args[0].match?(/:\d+\z/)
  # The refusals that are asked for below would each be logged.
  Dalli.logger = Logger.new(IO::NULL)
  c = Checks.new
  m = connect(args[0])
  packed = connect(args[0], compress: true, compression_min_size: 1)
  m.flush_all
  storage(c, m, packed)
  compare_and_swap(c, m)
  counters(c, m)
  multigets(c, m)
  types(c, m, packed)
  limits(c, m)
  noreply(c, m)
  lifetimes(c, m)
  server(c, m, connect(args[0]))
  c.done
end

main(ARGV)
