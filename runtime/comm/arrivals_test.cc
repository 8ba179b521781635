#include "runtime/comm/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace ddp::rt::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Call AllReduceOf(std::uint64_t count, std::uint64_t sequence) {
  Call call;
  call.kind = Kind::kAllReduce;
  call.count = count;
  call.sequence = sequence;
  call.name = "bucket";
  return call;
}

// Two ranks in one thread.
class ArrivalsTest : public ::testing::Test {
 protected:
  ArrivalsTest() {
    int pair[2] = {-1, -1};
    DDP_RT_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    std::vector<Fd> of_zero(2);
    std::vector<Fd> of_one(2);
    of_zero[1] = Fd(pair[0]);
    of_one[0] = Fd(pair[1]);
    zero_ = std::make_unique<Arrivals>(0, std::move(of_zero), control_zero_);
    one_ = std::make_unique<Arrivals>(1, std::move(of_one), control_one_);
  }

  Control control_zero_{0, std::vector<Fd>(2)};
  Control control_one_{1, std::vector<Fd>(2)};
  std::unique_ptr<Arrivals> zero_;
  std::unique_ptr<Arrivals> one_;
};

TEST_F(ArrivalsTest, AreCompleteOnceAllHaveCome) {
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    zero_->Announce(AllReduceOf(10, sequence));
    EXPECT_FALSE(zero_->Complete());
    EXPECT_THAT(zero_->Missing(), ElementsAre(1));
    one_->Announce(AllReduceOf(10, sequence));
    EXPECT_TRUE(one_->Complete());
    EXPECT_TRUE(zero_->Complete());
    EXPECT_THAT(zero_->Missing(), IsEmpty());
  }
}

TEST_F(ArrivalsTest, OneThatIsACallAheadIsComparedWithTheRightCall) {
  zero_->Announce(AllReduceOf(10, 1));
  one_->Announce(AllReduceOf(10, 1));
  EXPECT_TRUE(one_->Complete());
  one_->Announce(AllReduceOf(20, 2));
  EXPECT_TRUE(zero_->Complete());
  zero_->Announce(AllReduceOf(20, 2));
  EXPECT_TRUE(zero_->Complete());
}

TEST_F(ArrivalsTest, DifferentCallsBreakTheGroupAndNameBoth) {
  zero_->Announce(AllReduceOf(10, 1));
  one_->Announce(AllReduceOf(11, 1));
  try {
    zero_->Complete();
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kSoftware);
    EXPECT_THAT(e.what(), HasSubstr("(10 x f32, sum)"));
    EXPECT_THAT(e.what(), HasSubstr("(11 x f32, sum)"));
  }
}

}  // namespace
}  // namespace ddp::rt::comm
