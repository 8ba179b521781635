// The CRD's schema, held against what people apply (the samples) and what must not pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/ddpjob/schema_testing.h"

namespace ddp::job {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SchemaErrors;

std::vector<json::Json> JobsIn(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<json::Json> jobs;
  for (json::Json& document : json::ParseYaml(text.str()).value()) {
    if (json::GetString(document, {"kind"}) == api::kKind) {
      jobs.push_back(std::move(document));
    }
  }
  return jobs;
}

TEST(Schema, AcceptsEverySample) {
  int seen = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(DDP_SOURCE_DIR "/manifests/samples")) {
    for (const json::Json& job : JobsIn(entry.path())) {
      EXPECT_THAT(SchemaErrors(job), IsEmpty()) << entry.path();
      ++seen;
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(Schema, NoticesWhatTheServerWouldDropOrRefuse) {
  json::Json job = JobsIn(DDP_SOURCE_DIR "/manifests/samples/mnist.yaml").at(0);
  job["status"] = {{"phase", "Napping"}};
  EXPECT_THAT(SchemaErrors(job), Contains(HasSubstr("phase")));
  job["status"] = {{"mood", "good"}};
  EXPECT_THAT(SchemaErrors(job), Contains(HasSubstr("mood")));
  job.erase("status");
  job["spec"]["replicas"] = 0;
  EXPECT_THAT(SchemaErrors(job), Contains(HasSubstr("replicas")));
}

}  // namespace
}  // namespace ddp::job
