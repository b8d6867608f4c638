// rhea: sends and receives over a node that is killed in the middle, and goes on at the next one.
// node rhea_outlives.js QUEUE COUNT URL...; prints "half" when half of the messages have come, and what happened as one line of JSON.
'use strict';
const rhea = require('rhea');

function main([queue, total, ...urls]) {
  const count = Number(total);
  const container = rhea.create_container();
  const places = urls.map((url) => new URL(url));
  const place = (attempt) => places[attempt % places.length];
  // The node at hand, and the next ones when it is gone.
  let attempts = 0;
  const connection = container.connect({
    username: 'guest',
    password: 'guest',
    initial_reconnect_delay: 50,
    max_reconnect_delay: 500,
    connection_details: () => {
      const { hostname, port } = place(attempts);
      attempts += 1;
      return { host: hostname, port: Number(port) };
    },
  });
  const address = `/queues/${queue}`;
  const waiting = Array.from({ length: count }, (_, number) => number);
  const under_way = new Map();
  const accepted = new Set();
  const got = new Set();
  let losses = 0;
  let told = false;
  const sender = connection.open_sender(address);
  connection.open_receiver({ source: { address }, credit_window: 50 });
  const look = () => {
    if (!told && got.size >= count / 2) {
      told = true;
      console.log('half');
    }
    if (accepted.size === count && got.size === count) {
      connection.close();
    }
  };
  container.on('sendable', () => {
    while (sender.sendable() && waiting.length > 0 && under_way.size < 100) {
      const body = waiting.shift();
      under_way.set(sender.send({ body, durable: true }), body);
    }
  });
  container.on('accepted', ({ delivery }) => {
    accepted.add(under_way.get(delivery));
    under_way.delete(delivery);
    container.emit('sendable', {});
    look();
  });
  container.on('message', ({ message }) => {
    got.add(message.body);
    look();
  });
  container.on('disconnected', () => {
    losses += 1;
    // The client does not know whether these have come.
    waiting.unshift(...under_way.values());
    under_way.clear();
  });
  container.on('connection_close', () => {
    console.log(JSON.stringify({ accepted: accepted.size, got: got.size, losses: losses > 0 }));
  });
}

main(process.argv.slice(2));
