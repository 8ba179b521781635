#include "operator/controller/event_recorder.h"

#include <gtest/gtest.h>

#include "operator/kube/fake_server.h"

namespace ddp::controller {
namespace {

using std::chrono::minutes;

EventNote Note(const std::string& note, const std::string& uid = "u1") {
  return {{"ddpjob.dev/v1alpha1", "DDPJob", "ns", "mnist", uid}, false, "Started", "Start", note};
}

class Aggregation : public ::testing::Test {
 protected:
  EventAggregator aggregator_{"ddp-operator", "pod-1"};
  base::FakeClock clock_;
};

TEST_F(Aggregation, TheSameAgainBecomesACount) {
  const auto first = std::get<EventAggregator::Create>(aggregator_.Next(Note("x"), clock_.Now()));
  EXPECT_EQ(first.name_space, "ns");
  EXPECT_EQ(first.event["regarding"]["uid"], "u1");
  EXPECT_EQ(first.event["type"], "Normal");
  EXPECT_EQ(first.event["reportingController"], "ddp-operator");
  for (const int count : {2, 3}) {
    clock_.Advance(minutes(5));
    const auto more =
        std::get<EventAggregator::AddToSeries>(aggregator_.Next(Note("x"), clock_.Now()));
    EXPECT_EQ(more.name, first.event["metadata"]["name"]);
    EXPECT_EQ(more.patch["series"]["count"], count);
  }
}

TEST_F(Aggregation, OtherTextObjectOrALongPauseIsANewEvent) {
  aggregator_.Next(Note("x"), clock_.Now());
  EXPECT_TRUE(
      std::holds_alternative<EventAggregator::Create>(aggregator_.Next(Note("y"), clock_.Now())));
  EXPECT_TRUE(std::holds_alternative<EventAggregator::Create>(
      aggregator_.Next(Note("x", "u2"), clock_.Now())));
  clock_.Advance(minutes(7));
  EXPECT_TRUE(
      std::holds_alternative<EventAggregator::Create>(aggregator_.Next(Note("x"), clock_.Now())));
}

TEST_F(Aggregation, ForgetsTheOldestOfTooMany) {
  for (int i = 0; i <= 4096; ++i) {
    aggregator_.Next(Note(std::to_string(i)), clock_.Now());
    clock_.Advance(std::chrono::microseconds(1));
  }
  EXPECT_TRUE(
      std::holds_alternative<EventAggregator::Create>(aggregator_.Next(Note("0"), clock_.Now())));
  EXPECT_TRUE(std::holds_alternative<EventAggregator::AddToSeries>(
      aggregator_.Next(Note("4096"), clock_.Now())));
}

TEST_F(Aggregation, CutsLongNotesBetweenCharacters) {
  const auto write = std::get<EventAggregator::Create>(
      aggregator_.Next(Note(std::string(1023, 'x') + "é"), clock_.Now()));
  EXPECT_EQ(write.event["note"].get<std::string>().size(), 1023U);
}

kube::Client ClientOf(const kube::FakeServer& server) {
  kube::TransportOptions options;
  options.server = server.url();
  return {std::shared_ptr<kube::HttpTransport>(kube::MakeHttpTransport(options).value()), nullptr};
}

TEST(Recorder, SendsCountsDropsAndIsNeverInTheWay) {
  std::atomic<int> created{0};
  std::atomic<int> patched{0};
  kube::FakeServer server([&](kube::FakeConnection& connection) {
    while (auto request = connection.ReadRequest()) {
      if (request->body.find("refuse me") != std::string::npos) {
        connection.Reply(422, "{}");
        continue;
      }
      ++(request->method == "POST" ? created : patched);
      connection.Reply(201, "{}");
    }
  });
  Metrics metrics;
  {
    EventRecorder recorder(ClientOf(server), metrics, "ddp-operator", "pod-1");
    recorder.Record(Note("x"));
    recorder.Record(Note("x"));
    recorder.Record(Note("refuse me"));
    recorder.Record(Note("y"));
  }
  EXPECT_EQ(created, 2);
  EXPECT_EQ(patched, 1);
  EXPECT_NE(metrics.Text().find("ddpjob_events_sent_total 3"), std::string::npos);
  EXPECT_NE(metrics.Text().find("ddpjob_events_dropped_total 1"), std::string::npos);
}

TEST(Recorder, AFullQueueDropsAndCounts) {
  kube::FakeServer silent(
      [](kube::FakeConnection& connection) { connection.WaitForPeerToClose(); });
  Metrics metrics;
  EventRecorder recorder(ClientOf(silent), metrics, "ddp-operator", "pod-1");
  for (int i = 0; i < 1100; ++i) {
    recorder.Record(Note(std::to_string(i)));
  }
  const std::string text = metrics.Text();
  EXPECT_EQ(text.find("ddpjob_events_dropped_total 0"), std::string::npos);
}

TEST(Recorder, AnEventThatIsGoneIsMadeAnew) {
  std::atomic<int> created{0};
  kube::FakeServer server([&](kube::FakeConnection& connection) {
    while (auto request = connection.ReadRequest()) {
      if (request->method == "PATCH") {
        connection.Reply(404, R"({"kind":"Status","reason":"NotFound","message":"gone"})");
      } else {
        ++created;
        connection.Reply(201, "{}");
      }
    }
  });
  Metrics metrics;
  {
    EventRecorder recorder(ClientOf(server), metrics, "ddp-operator", "pod-1");
    recorder.Record(Note("x"));
    recorder.Record(Note("x"));
  }
  EXPECT_EQ(created, 2);
}

}  // namespace
}  // namespace ddp::controller
