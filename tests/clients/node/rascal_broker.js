// rascal: a virtual host asserted over the management API, publications, subscriptions, retries that wait, dead letters.
// node rascal_broker.js AMQP_PORT HTTP_PORT OTHER_AMQP_PORT OTHER_HTTP_PORT NAME; prints one line of JSON.
'use strict';
const { BrokerAsPromised, withDefaultConfig } = require('rascal');

const ATTEMPTS = 2;
const BACKOFF_MS = 200;
const [amqpPort, httpPort, otherAmqpPort, otherHttpPort, name] = process.argv.slice(2);

function connection(port, managementPort) {
  const management = { protocol: 'http', hostname: '127.0.0.1', port: managementPort, user: 'guest', password: 'guest' };
  return { protocol: 'amqp', hostname: '127.0.0.1', port, user: 'guest', password: 'guest', management };
}

function configuration(port, managementPort) {
  return {
    vhosts: {
      [name]: {
        assert: true,
        connection: connection(port, managementPort),
        exchanges: { jobs: { type: 'topic' }, dead: { type: 'fanout' } },
        queues: {
          work: { options: { arguments: { 'x-queue-type': 'quorum', 'x-dead-letter-exchange': 'dead' } } },
          graveyard: {},
        },
        bindings: ['jobs[job.#] -> work', 'dead -> graveyard'],
        publications: { job: { exchange: 'jobs', routingKey: 'job.new', confirm: true } },
        subscriptions: { work: { queue: 'work', prefetch: 5 }, graveyard: { queue: 'graveyard' } },
      },
    },
  };
}

// Resolves when `count` settled messages were seen.
async function subscribe(broker, subscription, count, handle) {
  const session = await broker.subscribe(subscription);
  return new Promise((resolve, reject) => {
    let settled = 0;
    session.on('message', (message, content, ackOrNack) => {
      handle(message, content, ackOrNack);
      settled += 1;
      if (settled === count) resolve();
    }).on('error', reject).on('invalid_content', reject);
  });
}

async function publish(broker, content) {
  const publication = await broker.publish('job', content);
  return new Promise((resolve, reject) => {
    publication.on('success', resolve).on('error', reject).on('return', () => reject(new Error('returned')));
  });
}

async function main() {
  const sending = await BrokerAsPromised.create(withDefaultConfig(configuration(amqpPort, httpPort)));
  const reading = await BrokerAsPromised.create(withDefaultConfig(configuration(otherAmqpPort, otherHttpPort)));
  for (const broker of [sending, reading]) broker.on('error', (error) => { throw error; });
  const seen = [];
  const buried = [];
  const times = [];
  const republish = { strategy: 'republish', defer: BACKOFF_MS, attempts: ATTEMPTS };
  const work = subscribe(reading, 'work', 2 + 1 + ATTEMPTS, (message, content, ackOrNack) => {
    seen.push(content.what);
    if (content.what !== 'hopeless') return ackOrNack();
    times.push(Date.now());
    return ackOrNack(new Error('hopeless'), [republish, { strategy: 'nack' }]);
  });
  const graveyard = subscribe(sending, 'graveyard', 1, (message, content, ackOrNack) => {
    buried.push([content.what, message.properties.headers['x-death'][0].reason]);
    ackOrNack();
  });
  for (const what of ['one', 'hopeless', 'two']) await publish(sending, { what });
  await Promise.all([work, graveyard]);
  const waited = times.slice(1).every((time, index) => time - times[index] >= BACKOFF_MS);
  await reading.shutdown();
  await sending.nuke();
  console.log(JSON.stringify({ seen: seen.sort(), buried, waited }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
