// rhea: a stream of messages, outcomes, credit and drain, a large message, refused links, a browser.
// node rhea_links.js URL OTHER_URL QUEUE, with URLs of the scheme amqp or ws; prints what happened as one line of JSON.
'use strict';
const rhea = require('rhea');

const COUNT = 1000;
const LARGE = 3_000_000;

const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve));

function connect(url, options) {
  const container = rhea.create_container();
  const { protocol, hostname, port } = new URL(url);
  const place = protocol === 'ws:'
    ? { connection_details: container.websocket_connect(WebSocket)(url, 'amqp', {}) }
    : { host: hostname, port: Number(port) };
  const connection = container.connect({
    username: 'guest', password: 'guest', reconnect: false, ...place, ...options,
  });
  return once(connection, 'connection_open').then(() => connection);
}

// Returns when the node has accepted each message.
function send(sender, messages) {
  return new Promise((resolve, reject) => {
    let sent = 0;
    let settled = 0;
    const go = () => {
      while (sender.sendable() && sent < messages.length) sender.send(messages[sent++]);
    };
    sender.on('sendable', go);
    sender.on('rejected', () => reject(new Error('rejected')));
    sender.on('released', () => reject(new Error('released')));
    sender.on('accepted', () => {
      settled += 1;
      if (settled === messages.length) {
        sender.removeAllListeners();
        resolve();
      }
    });
    go();
  });
}

async function opened(link, kind) {
  await once(link, `${kind}_open`);
  return link;
}

const sending = (connection, address) => opened(connection.open_sender(address), 'sender');

const receiving = (connection, address, options) => opened(connection.open_receiver({
  source: { address, ...options.source }, autoaccept: false, credit_window: 0, ...options.link,
}), 'receiver');

// Returns the next deliveries, each of which is given to `settle`.
function take(receiver, count, settle) {
  return new Promise((resolve) => {
    const got = [];
    const on = ({ message, delivery }) => {
      got.push(message);
      settle(delivery);
      if (got.length === count) {
        receiver.removeListener('message', on);
        resolve(got);
      }
    };
    receiver.on('message', on);
    receiver.add_credit(count);
  });
}

// Returns what is in the queue.
async function drained(receiver) {
  const got = [];
  const on = ({ message, delivery }) => {
    got.push(message.body);
    delivery.accept();
  };
  receiver.on('message', on);
  receiver.drain = true;
  receiver.add_credit(5000);
  await once(receiver, 'receiver_drained');
  receiver.removeListener('message', on);
  receiver.drain = false;
  return { got, credit: receiver.credit };
}

async function closed(link, kind) {
  const done = once(link, `${kind}_close`);
  link.close();
  await done;
}

async function stream(one, other, address) {
  const sender = await sending(one, address);
  const messages = Array.from({ length: COUNT }, (_, number) => ({
    message_id: number, subject: 'stream', body: `body ${number}`, application_properties: { number },
  }));
  await send(sender, messages);
  const receiver = await receiving(other, address, {});
  const got = await take(receiver, COUNT, (delivery) => delivery.accept());
  await closed(receiver, 'receiver');
  await closed(sender, 'sender');
  const inOrder = got.every((message, number) => message.body === `body ${number}`
    && message.message_id === number && message.application_properties.number === number);
  return { count: got.length, inOrder, subject: got[0].subject };
}

async function outcomes(one, other, address) {
  const sender = await sending(one, address);
  await send(sender, [{ body: 'message' }]);
  const receiver = await receiving(other, address, {});
  const counts = [];
  for (const settle of [
    (delivery) => delivery.release({}),
    (delivery) => delivery.modified({ delivery_failed: true }),
    (delivery) => delivery.modified({ delivery_failed: false }),
    (delivery) => delivery.reject({ condition: 'test:bad', description: 'bad' }),
  ]) {
    const [message] = await take(receiver, 1, settle);
    counts.push(message.delivery_count || 0);
  }
  const { got } = await drained(receiver);
  await closed(receiver, 'receiver');
  await closed(sender, 'sender');
  return { counts, left: got };
}

async function credit(one, other, address) {
  const sender = await sending(one, address);
  await send(sender, [0, 1, 2, 3, 4].map((body) => ({ body })));
  const holding = await receiving(one, address, {});
  const held = await take(holding, 2, () => {});
  const receiver = await receiving(other, address, {});
  const rest = await drained(receiver);
  const empty = await drained(receiver);
  await closed(holding, 'receiver');
  const back = await drained(receiver);
  await closed(receiver, 'receiver');
  await closed(sender, 'sender');
  return { held: held.map((message) => message.body), rest, empty, back };
}

async function large(one, other, address) {
  const body = Buffer.alloc(LARGE, 'large');
  const sender = await sending(one, address);
  await send(sender, [{ body: rhea.message.data_section(body) }, { body: body.toString() }]);
  const receiver = await receiving(other, address, {});
  const [data, text] = await take(receiver, 2, (delivery) => delivery.accept());
  await closed(receiver, 'receiver');
  await closed(sender, 'sender');
  return [data.body.content.equals(body), text.body === body.toString()];
}

async function browse(one, other, address) {
  const sender = await sending(one, address);
  await send(sender, [{ body: 'a' }, { body: 'b' }]);
  const browser = await receiving(other, address, { source: { distribution_mode: 'copy' } });
  const seen = await take(browser, 2, (delivery) => delivery.accept());
  await closed(browser, 'receiver');
  const receiver = await receiving(other, address, {});
  const { got } = await drained(receiver);
  await closed(receiver, 'receiver');
  await closed(sender, 'sender');
  return { seen: seen.map((message) => message.body), got };
}

// A refused link is attached without its terminus before it is detached: only the error tells the refusal.
async function refusal(link, kind) {
  const { [kind]: refusing } = await once(link, `${kind}_error`);
  const terminus = kind === 'sender' ? refusing.remote.attach.target : refusing.remote.attach.source;
  return [refusing.error.condition, terminus];
}

async function refused(connection, address) {
  const conditions = [
    await refusal(connection.open_sender(`${address}-absent`), 'sender'),
    await refusal(connection.open_receiver(`${address}-absent`), 'receiver'),
    await refusal(connection.open_sender('/exchanges/absent/key'), 'sender'),
  ];
  const sender = await sending(connection, address);
  await send(sender, [{ body: 'goes on' }]);
  const receiver = await receiving(connection, address, {});
  const { got } = await drained(receiver);
  await closed(receiver, 'receiver');
  await closed(sender, 'sender');
  return { conditions, got };
}

async function main([url, otherUrl, queue]) {
  const address = `/queues/${queue}`;
  const one = await connect(url, { max_frame_size: 4096 });
  const other = await connect(otherUrl, {});
  const found = {
    stream: await stream(one, other, address),
    outcomes: await outcomes(one, other, address),
    credit: await credit(one, other, address),
    large: await large(one, other, address),
    browse: await browse(one, other, address),
    refused: await refused(one, address),
  };
  for (const connection of [one, other]) {
    const done = once(connection, 'connection_close');
    connection.close();
    await done;
  }
  console.log(JSON.stringify(found));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
