// amqplib with promises: work queue with confirms, a call, a refusal, a return.
// node amqplib_promises.js URL OTHER_URL NAME; prints what happened as one line of JSON.
'use strict';
const amqp = require('amqplib');

const COUNT = 200;

function taken(channel, queue, count, settle) {
  return new Promise((resolve, reject) => {
    const got = [];
    channel.consume(queue, (message) => {
      if (message === null) return reject(new Error(`${queue}: cancelled`));
      got.push(message);
      settle(message);
      if (got.length === count) resolve(got);
    }).catch(reject);
  });
}

async function workQueue(sending, reading, name) {
  const publisher = await sending.createConfirmChannel();
  await publisher.assertExchange(name, 'topic', { durable: true });
  await publisher.assertQueue(name, { durable: true });
  await publisher.bindQueue(name, name, 'task.#');
  for (let number = 0; number < COUNT; number++) {
    const options = { persistent: true, messageId: String(number), headers: { number, deep: { list: [1, 'two', true] } } };
    publisher.publish(name, 'task.new', Buffer.from(`body ${number}`), options);
  }
  await publisher.waitForConfirms();
  const worker = await reading.createChannel();
  await worker.prefetch(10);
  const got = await taken(worker, name, COUNT, (message) => worker.ack(message));
  await worker.close();
  const { messageCount } = await publisher.deleteQueue(name);
  await publisher.deleteExchange(name);
  const inOrder = got.every((message, number) =>
    message.content.toString() === `body ${number}` && message.properties.headers.number === number);
  return { count: got.length, inOrder, left: messageCount, headers: got[0].properties.headers };
}

async function call(sending, reading, name) {
  const server = await reading.createChannel();
  const requests = `${name}-requests`;
  await server.assertQueue(requests, { durable: false, autoDelete: true });
  await server.consume(requests, (message) => {
    const { replyTo, correlationId } = message.properties;
    server.sendToQueue(replyTo, Buffer.from(message.content.toString().toUpperCase()), { correlationId });
    server.ack(message);
  });
  const caller = await sending.createChannel();
  const { queue } = await caller.assertQueue('', { exclusive: true });
  caller.sendToQueue(requests, Buffer.from('hello'), { replyTo: queue, correlationId: 'one' });
  const [reply] = await taken(caller, queue, 1, (message) => caller.ack(message));
  return { content: reply.content.toString(), correlationId: reply.properties.correlationId };
}

async function refused(connection, name) {
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  const error = await channel.checkQueue(`${name}-absent`).catch((raised) => raised);
  return error.code;
}

async function returned(connection, name) {
  const channel = await connection.createConfirmChannel();
  const back = new Promise((resolve) => channel.on('return', resolve));
  channel.sendToQueue(`${name}-absent`, Buffer.from('lost'), { mandatory: true });
  const message = await back;
  await channel.waitForConfirms();
  return [message.fields.replyCode, message.fields.replyText, message.content.toString()];
}

async function main([url, otherUrl, name]) {
  const sending = await amqp.connect(url);
  const reading = await amqp.connect(otherUrl);
  const found = {
    work: await workQueue(sending, reading, name),
    call: await call(sending, reading, name),
    refused: await refused(sending, name),
    returned: await returned(reading, name),
  };
  await sending.close();
  await reading.close();
  console.log(JSON.stringify(found));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
