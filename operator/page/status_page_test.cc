#include "operator/page/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::page {
namespace {

using ::testing::HasSubstr;

TEST(IsOwnHost, KnowsThisMachineAlone) {
  for (const char* host : {"localhost", "localhost:8081", "127.0.0.1:80", "[::1]:8081", "[::1]"}) {
    EXPECT_TRUE(IsOwnHost(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80",
        "localhost:", "localhost:80x", "10.0.0.1:8081", "evil@localhost"}) {
    EXPECT_FALSE(IsOwnHost(host)) << host;
  }
}

class StatusPageTest : public ::testing::Test {
 protected:
  StatusPageTest() {
    auto job = std::make_shared<job::CachedJob>();
    job->job.metadata.namespace_name = "team";
    job->job.metadata.name = "mnist";
    jobs_.Put("team/mnist", {"uid", "1", std::move(job)});
  }
  controller::HttpAnswer Ask(std::string_view path, std::string_view host = "localhost:8081") {
    return StatusPage(jobs_, history_, clock_)({path, "", host});
  }

  base::FakeClock clock_;
  controller::Store<job::CachedJob> jobs_;
  TrainingHistory history_;
};

TEST_F(StatusPageTest, ServesTheListAndEachJob) {
  EXPECT_THAT(Ask("/").body, HasSubstr("team/mnist"));
  EXPECT_TRUE(Ask("/").is_page);
  EXPECT_EQ(Ask("/job/team/mnist").status, 200);
  for (const char* path : {"/job/team/other", "/job/", "/favicon.ico", "", "/job/../etc/passwd"}) {
    EXPECT_EQ(Ask(path).status, 404) << path;
  }
}

TEST_F(StatusPageTest, RefusesToBeAskedUnderAnotherName) {
  const auto answer = Ask("/", "evil.example");
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, testing::Not(HasSubstr("mnist")));
}

TEST_F(StatusPageTest, ForgetsTheHistoryOfJobsThatAreGone) {
  job::ProgressReply reply;
  reply.progress.step = 1;
  reply.progress.loss = 1.0;
  history_.Record("team/gone", reply);
  history_.Record("team/mnist", reply);
  Ask("/");
  EXPECT_TRUE(history_.Of("team/gone").losses.empty());
  EXPECT_FALSE(history_.Of("team/mnist").losses.empty());
}

}  // namespace
}  // namespace ddp::page
