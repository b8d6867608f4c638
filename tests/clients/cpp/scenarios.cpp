// Scenarios of Qpid Proton's C++ client (0.37): `scenarios NAME URL ADDRESS [COUNT [URL...]]`.
//
// Each scenario prints a line for what it has seen, and ends with status 0. A refused link or connection is
// printed as `error: CONDITION`, with status 1.

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/reconnect_options.hpp>
#include <proton/sender.hpp>
#include <proton/sender_options.hpp>
#include <proton/session.hpp>
#include <proton/source.hpp>
#include <proton/source_options.hpp>
#include <proton/target.hpp>
#include <proton/target_options.hpp>
#include <proton/tracker.hpp>
#include <proton/transport.hpp>
#include <proton/types.hpp>

namespace {

struct Arguments {
    std::string url, address;
    int count;
    std::vector<std::string> others;
};

class Scenario : public proton::messaging_handler {
  public:
    explicit Scenario(const Arguments &arguments) : arguments_(arguments) {}
    int status = 0;

    void on_error(const proton::error_condition &error) override {
        std::cout << "error: " << error.name() << std::endl;
        status = 1;
    }

    void on_receiver_error(proton::receiver &link) override { fail(link, link.error()); }
    void on_sender_error(proton::sender &link) override { fail(link, link.error()); }

    void on_transport_error(proton::transport &transport) override {
        // A client that reconnects hears of each connection that it loses.
        if (arguments_.others.empty()) on_error(transport.error());
    }

  protected:
    const Arguments arguments_;

    proton::connection_options options() {
        return proton::connection_options().user("guest").password("guest").sasl_allowed_mechs("PLAIN")
            .sasl_allow_insecure_mechs(true);
    }

    proton::connection connect(proton::container &container) {
        return container.connect(arguments_.url, options());
    }

  private:
    void fail(proton::link &link, const proton::error_condition &error) {
        on_error(error);
        link.connection().close();
    }
};

// Sends COUNT messages, numbered from 0 in the message-id too, until all are accepted, or one is released.
class Send : public Scenario {
  public:
    using Scenario::Scenario;

    void on_container_start(proton::container &container) override {
        auto wanted = options();
        if (!arguments_.others.empty()) {
            wanted.failover_urls(arguments_.others);
            wanted.reconnect(
                proton::reconnect_options().delay(proton::duration(50)).max_delay(proton::duration(500)));
        }
        proton::connection connection = container.connect(arguments_.url, wanted);
        connection.open_sender(arguments_.address);
    }

    void on_sender_open(proton::sender &) override {
        // Behind a lost connection the outcomes of these are not known: they are sent again.
        sent_ = confirmed_;
    }

    void on_sendable(proton::sender &sender) override {
        while (sender.credit() && sent_ < arguments_.count) {
            proton::message message(std::to_string(sent_));
            message.id(std::uint64_t(sent_++));
            message.durable(true);
            message.properties().put("parity", sent_ % 2 ? "even" : "odd");
            sender.send(message);
        }
    }

    void on_tracker_accept(proton::tracker &tracker) override {
        if (++confirmed_ == 1) std::cout << "first" << std::endl;
        if (confirmed_ == arguments_.count) {
            std::cout << "accepted " << confirmed_ << std::endl;
            tracker.connection().close();
        }
    }

    void on_tracker_release(proton::tracker &tracker) override {
        std::cout << "released" << std::endl;
        tracker.connection().close();
    }

  private:
    int sent_ = 0, confirmed_ = 0;
};

// Receives COUNT messages, settles them by `settle`, and prints their bodies.
class Receive : public Scenario {
  public:
    Receive(const Arguments &arguments, proton::receiver_options options,
            std::function<void(proton::delivery &, int)> settle)
        : Scenario(arguments), wanted_(options), settle_(settle) {}

    void on_container_start(proton::container &container) override {
        auto connection = connect(container);
        connection.open_receiver(arguments_.address, wanted_);
    }

    void on_receiver_open(proton::receiver &receiver) override {
        // A refused link is opened without a source; its error follows.
        if (receiver.source().address().empty()) return;
        std::cout << "source " << receiver.source().address() << std::endl;
        finish(receiver);
    }

    void on_message(proton::delivery &delivery, proton::message &message) override {
        if (seen_ >= arguments_.count) return;
        std::cout << proton::get<std::string>(message.body()) << " " << message.delivery_count() << std::endl;
        settle_(delivery, seen_++);
        auto receiver = delivery.receiver();
        finish(receiver);
    }

  private:
    void finish(proton::receiver &receiver) {
        if (seen_ < arguments_.count) return;
        if (wanted_detach_) receiver.detach(); else receiver.close();
        receiver.connection().close();
    }

    proton::receiver_options wanted_;
    std::function<void(proton::delivery &, int)> settle_;
    int seen_ = 0;

  public:
    bool wanted_detach_ = false;
};

// Asks COUNT questions of itself over ADDRESS, with a dynamic node for the answers.
class Call : public Scenario {
  public:
    using Scenario::Scenario;

    void on_container_start(proton::container &container) override {
        auto connection = connect(container);
        server_ = connection.open_receiver(arguments_.address);
        answers_ = connection.open_receiver(
            "", proton::receiver_options().source(proton::source_options().dynamic(true)));
        auto nowhere = proton::target_options().anonymous(true);
        answerer_ = connection.open_sender("", proton::sender_options().target(nowhere));
        questions_ = connection.open_sender(arguments_.address);
    }

    void on_receiver_open(proton::receiver &receiver) override {
        if (receiver == answers_) ask();
    }

    void on_message(proton::delivery &delivery, proton::message &message) override {
        if (delivery.receiver() == server_) {
            proton::message answer("re: " + proton::get<std::string>(message.body()));
            answer.to(message.reply_to());
            answer.correlation_id(message.correlation_id());
            answerer_.send(answer);
            return;
        }
        std::cout << proton::get<std::string>(message.body()) << " " << message.correlation_id() << std::endl;
        if (++asked_ < arguments_.count) ask(); else delivery.connection().close();
    }

  private:
    proton::receiver server_, answers_;
    proton::sender answerer_, questions_;
    int asked_ = 0;

    void ask() {
        proton::message question(std::to_string(asked_));
        question.reply_to(answers_.source().address());
        question.correlation_id(std::uint64_t(asked_));
        questions_.send(question);
    }
};

void accept(proton::delivery &delivery, int) { delivery.accept(); }

// The first message is released, then modified; the second is rejected; others are accepted.
void outcomes(proton::delivery &delivery, int seen) {
    switch (seen) {
    case 0: delivery.release(); break;
    case 1: delivery.modify(); break;
    case 3: delivery.reject(); break;
    default: delivery.accept();
    }
}

proton::receiver_options by_hand(int credit) {
    return proton::receiver_options().auto_accept(false).credit_window(credit);
}

proton::source_options durable() {
    return proton::source_options()
        .durability_mode(proton::source::UNSETTLED_STATE)
        .expiry_policy(proton::source::NEVER);
}

proton::source::filter_map selector(const std::string &text) {
    proton::source::filter_map filters;
    proton::symbol name("selector");
    proton::value described;
    proton::codec::encoder encoder(described);
    encoder << proton::codec::start::described() << proton::symbol("apache.org:selector-filter:string") << text
            << proton::codec::finish();
    filters.put(name, described);
    return filters;
}

int run(Scenario &scenario, const std::string &container) {
    proton::container(scenario, container).run();
    return scenario.status;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const std::string name(argv[1]);
    Arguments arguments{argv[2], argv[3], argc > 4 ? std::atoi(argv[4]) : 1, {}};
    for (int index = 5; index < argc; ++index) arguments.others.push_back(argv[index]);
    std::string container = "cpp";
    if (name == "send") {
        Send scenario(arguments);
        return run(scenario, container);
    }
    if (name == "call") {
        Call scenario(arguments);
        return run(scenario, container);
    }
    auto options = by_hand(name == "outcomes" ? 1 : 10);
    auto settle = accept;
    if (name == "outcomes") settle = outcomes;
    if (name == "browse") {
        options.source(proton::source_options().distribution_mode(proton::source::COPY));
    }
    if (name == "filter") {
        options.source(proton::source_options().filters(selector("parity = 'odd'")));
    }
    if (name == "subscribe" || name == "unsubscribe") {
        auto source = durable();
        options.source(source).name("mine");
        container = "subscriber of " + arguments.address;
    }
    Receive scenario(arguments, options, settle);
    scenario.wanted_detach_ = name == "subscribe";
    return run(scenario, container);
}
