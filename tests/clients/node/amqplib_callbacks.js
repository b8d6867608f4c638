// amqplib's other interface, with callbacks: bodies of many frames, cut as was agreed, and requeued ones.
// node amqplib_callbacks.js URL OTHER_URL NAME; prints what happened as one line of JSON.
'use strict';
const amqp = require('amqplib/callback_api');

const SIZES = [0, 1, 4096, 500_000];
const [url, otherUrl, name] = process.argv.slice(2);

function orDie(next) {
  return (error, value) => {
    if (error) {
      console.error(error);
      process.exit(1);
    }
    next(value);
  };
}

function consume(connection, publisher, done) {
  connection.createChannel(orDie((channel) => {
    const seen = [];
    channel.prefetch(1);
    channel.consume(name, (message) => {
      seen.push([message.content.length, message.fields.redelivered]);
      if (!message.fields.redelivered) return channel.nack(message);
      channel.ack(message);
      if (seen.length === 2 * SIZES.length) {
        channel.close(orDie(() => publisher.deleteQueue(name, {}, orDie(() => done(seen)))));
      }
    });
  }));
}

// The smallest frames that there are.
amqp.connect(`${url}?frameMax=4096`, orDie((sending) => {
  amqp.connect(otherUrl, orDie((reading) => {
    sending.createConfirmChannel(orDie((publisher) => {
      publisher.assertQueue(name, { durable: true }, orDie(() => {
        for (const size of SIZES) publisher.sendToQueue(name, Buffer.alloc(size, 'x'), { persistent: true });
        publisher.waitForConfirms(orDie(() => {
          consume(reading, publisher, (seen) => {
            console.log(JSON.stringify(seen));
            sending.close(orDie(() => reading.close()));
          });
        }));
      }));
    }));
  }));
}));
