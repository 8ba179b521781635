// The watcher against scripted sources and a scripted server.
#include "operator/kube/watcher.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "operator/kube/fake_server.h"

namespace ddp::kube {
namespace {

const Resource kPods{"", "v1", "pods", "Pod"};

std::string Line(const std::string& type, const std::string& name, const std::string& version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name +
         R"(","resourceVersion":")" + version + "\"}}}\n";
}

std::string List(const std::string& name, const std::string& version) {
  return R"({"metadata":{"resourceVersion":")" + version + R"("},"items":[{"metadata":{"name":")" +
         name + "\"}}]}";
}

// Collects what a watcher says, and waits for it with a bound.
class Listener {
 public:
  explicit Listener(const std::string& url) {
    TransportOptions options;
    options.server = url;
    transport_ = std::move(MakeHttpTransport(options).value());
    source_ = MakeWatchSource(Client(transport_, nullptr), kPods, "", {});
    thread_ = std::jthread([this](std::stop_token stop) {
      Watcher("pods", *source_).Run(stop, [this](ObjectEvent event) {
        std::lock_guard lock(mutex_);
        heard_.push_back(Text(event));
        changed_.notify_all();
      });
    });
  }

  std::vector<std::string> WaitForCount(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return heard_.size() >= count; });
    return heard_;
  }

 private:
  static std::string Text(const ObjectEvent& event) {
    static const char* const kNames[] = {"start", "item ", "done", "upsert ", "delete "};
    return kNames[static_cast<int>(event.kind)] +
           json::GetString(event.object, {"metadata", "name"});
  }

  std::shared_ptr<HttpTransport> transport_;
  std::unique_ptr<WatchSource> source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
  std::jthread thread_;
};

using Heard = std::vector<std::string>;

// What a server says that can't begin a watch with what is there. True: this was such a request.
bool RefuseStreaming(FakeConnection& connection, const SeenRequest& request) {
  if (request.target.find("sendInitialEvents") == std::string::npos) {
    return false;
  }
  connection.Reply(422, R"({"kind":"Status","code":422,"reason":"Invalid","message":"forbidden"})");
  return true;
}

TEST(Watcher, BeginsWithAStreamOfWhatIsThere) {
  std::atomic<int> requests{0};
  FakeServer server([&](FakeConnection& connection) {
    while (auto request = connection.ReadRequest()) {
      ++requests;
      EXPECT_NE(request->target.find("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
                std::string::npos);
      connection.BeginChunked();
      connection.Chunk(Line("ADDED", "a", "2"));
      connection.Chunk(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3",)"
                       R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"
                       "\n" +
                       Line("ADDED", "b", "4"));
      connection.WaitForPeerToClose();
    }
  });
  Listener listener(server.url());
  EXPECT_EQ(listener.WaitForCount(4), (Heard{"start", "item a", "done", "upsert b"}));
  EXPECT_EQ(requests, 1);
}

TEST(Watcher, ResumesAfterACutInMidLineFromTheLastVersion) {
  std::mutex mutex;
  std::vector<std::string> versions;
  FakeServer server([&](FakeConnection& connection) {
    while (auto request = connection.ReadRequest()) {
      if (RefuseStreaming(connection, *request)) {
        continue;
      }
      if (request->target.find("watch=true") == std::string::npos) {
        connection.Reply(200, List("a", "1"));
        continue;
      }
      const size_t at = request->target.find("resourceVersion=") + 16;
      const std::string version = request->target.substr(at, request->target.find('&', at) - at);
      {
        std::lock_guard lock(mutex);
        versions.push_back(version);
      }
      connection.BeginChunked();
      if (version == "1") {
        connection.Chunk(Line("ADDED", "b", "2") + Line("MODIFIED", "c", "3").substr(0, 20));
        return;  // cut
      }
      connection.Chunk(Line("BOOKMARK", "", "4") + Line("DELETED", "b", "5"));
      connection.WaitForPeerToClose();
    }
  });
  Listener listener(server.url());
  EXPECT_EQ(listener.WaitForCount(5), (Heard{"start", "item a", "done", "upsert b", "delete b"}));
  std::lock_guard lock(mutex);
  EXPECT_EQ(versions, (Heard{"1", "2"}));
}

TEST(Watcher, ListsAgainOn410WhetherAsAnswerOrAsEvent) {
  for (const bool as_event : {false, true}) {
    std::atomic<int> lists{0};
    FakeServer server([&](FakeConnection& connection) {
      while (auto request = connection.ReadRequest()) {
        if (RefuseStreaming(connection, *request)) {
          continue;
        }
        if (request->target.find("watch=true") == std::string::npos) {
          ++lists;
          connection.Reply(200, List(lists == 1 ? "old" : "new", lists == 1 ? "1" : "9"));
          continue;
        }
        const std::string gone =
            R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})";
        if (request->target.find("resourceVersion=9") != std::string::npos) {
          connection.BeginChunked();
          connection.WaitForPeerToClose();
          return;
        }
        if (as_event) {
          connection.BeginChunked();
          connection.Chunk(R"({"type":"ERROR","object":)" + gone + "}\n");
          connection.WaitForPeerToClose();
          return;
        }
        connection.Reply(410, gone);
      }
    });
    Listener listener(server.url());
    EXPECT_EQ(listener.WaitForCount(6),
              (Heard{"start", "item old", "done", "start", "item new", "done"}));
  }
}

TEST(Watcher, ALineThatIsNoEventDoesNotEndItsView) {
  std::atomic<int> watches{0};
  FakeServer server([&](FakeConnection& connection) {
    while (auto request = connection.ReadRequest()) {
      if (RefuseStreaming(connection, *request)) {
        continue;
      }
      if (request->target.find("watch=true") == std::string::npos) {
        connection.Reply(200, List("a", "1"));
        continue;
      }
      connection.BeginChunked();
      connection.Chunk(++watches == 1 ? "not json\n" : Line("ADDED", "b", "2"));
      connection.WaitForPeerToClose();
    }
  });
  Listener listener(server.url());
  EXPECT_EQ(listener.WaitForCount(4), (Heard{"start", "item a", "done", "upsert b"}));
}

}  // namespace
}  // namespace ddp::kube
