// The CRD and the C++ types say the same: field names, defaults, limits, reserved variables.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "operator/api/parse.h"

namespace ddp::api {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

std::string Read(const std::string& path) {
  std::ifstream file(std::string(DDP_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Json Crd() { return json::ParseYaml(Read("manifests/crd/ddpjob.yaml"))->front(); }

// The schema of an object at a path like "spec.restart"; lists are looked through.
const Json* SchemaAt(const Json& root, std::string_view path) {
  const Json* at = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string name(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
    at = json::Find(*at, {"properties", name});
    if (at != nullptr && at->contains("items")) {
      at = &at->at("items");
    }
    if (at == nullptr) {
      return nullptr;
    }
  }
  return at;
}

class CrdTest : public ::testing::Test {
 protected:
  const Json crd_ = Crd();
  const Json& version_ = crd_["spec"]["versions"][0];
  const Json& schema_ = version_["schema"]["openAPIV3Schema"];
};

TEST_F(CrdTest, FitsPlainKubectlApply) {
  EXPECT_LT(Read("manifests/crd/ddpjob.yaml").size(), kMaxCrdBytes);
}

TEST_F(CrdTest, NamesAreThoseOfTheCode) {
  EXPECT_EQ(crd_["spec"]["group"], kGroup);
  EXPECT_EQ(crd_["spec"]["names"]["kind"], kKind);
  EXPECT_EQ(crd_["spec"]["names"]["plural"], kPlural);
  EXPECT_EQ(crd_["spec"]["names"]["shortNames"], Json({"ddp"}));
  EXPECT_EQ(version_["name"], kVersion);
  EXPECT_TRUE(version_["subresources"].contains("status"));
}

TEST_F(CrdTest, HasExactlyTheFieldsOfTheTypes) {
  for (const std::string_view path : FieldPaths()) {
    const Json* schema = SchemaAt(schema_, path);
    ASSERT_NE(schema, nullptr) << path;
    std::vector<std::string> names;
    for (const auto& [name, value] : schema->at("properties").items()) {
      names.push_back(name);
    }
    EXPECT_THAT(names, UnorderedElementsAreArray(FieldsAt(path))) << path;
  }
}

// Every property has a description, but those of the template and the three of every object.
void CheckDescribed(const Json& schema, const std::string& path) {
  if (const Json* properties = json::Find(schema, {"properties"}); properties != nullptr) {
    for (const auto& [name, property] : properties->items()) {
      const std::string at = fmt::format("{}.{}", path, name);
      EXPECT_TRUE(property.contains("description")) << at;
      if (name != "template") {
        CheckDescribed(property, at);
      }
    }
  }
  if (const Json* items = json::Find(schema, {"items"}); items != nullptr) {
    CheckDescribed(*items, path + "[]");
  }
}

TEST_F(CrdTest, DescribesEveryField) {
  CheckDescribed(schema_["properties"]["spec"], "spec");
  CheckDescribed(schema_["properties"]["status"], "status");
}

TEST_F(CrdTest, DefaultsAreThoseOfTheParser) {
  const Json& spec = schema_["properties"]["spec"]["properties"];
  const auto value = [&spec](const char* group, const char* field) {
    return spec[group]["properties"][field].value("default", Json());
  };
  EXPECT_EQ(value("rendezvous", "port"), kDefaultRendezvousPort);
  EXPECT_EQ(value("progress", "port"), kDefaultProgressPort);
  EXPECT_EQ(value("shm", "size"), kDefaultShmSize);
  EXPECT_EQ(value("restart", "maxRestarts"), kDefaultMaxRestarts);
  EXPECT_EQ(value("restart", "maxUncountedRestarts"), kDefaultMaxUncountedRestarts);
  EXPECT_EQ(value("restart", "backoffSeconds"), kDefaultBackoffSeconds);
  EXPECT_EQ(value("restart", "maxBackoffSeconds"), kDefaultMaxBackoffSeconds);
  EXPECT_EQ(value("restart", "gracePeriodSeconds"), Json()) << "depends on the template";
  EXPECT_EQ(spec["restart"]["default"],
            Json({{"maxRestarts", kDefaultMaxRestarts},
                  {"maxUncountedRestarts", kDefaultMaxUncountedRestarts},
                  {"backoffSeconds", kDefaultBackoffSeconds},
                  {"maxBackoffSeconds", kDefaultMaxBackoffSeconds}}));
  EXPECT_EQ(value("progress", "stallTimeoutSeconds"), 0);
  EXPECT_EQ(value("progress", "onStall"), Name(Spec().progress.on_stall));
  EXPECT_EQ(value("scheduling", "gang"), Name(Spec().scheduling.gang));
  EXPECT_EQ(value("scheduling", "topologyMode"), Name(Spec().scheduling.topology_mode));
  EXPECT_EQ(value("checkpoint", "mount"), Json()) << "depends on replicas and access modes";
  EXPECT_EQ(spec["startupTimeoutSeconds"]["default"], kDefaultStartupTimeoutSeconds);
  EXPECT_EQ(spec["startupTimeoutSeconds"]["maximum"], kMaxTimeoutSeconds);
  EXPECT_EQ(spec["processesPerReplica"]["default"], Spec().processes_per_replica);
  EXPECT_EQ(spec["processesPerReplica"]["maximum"], kMaxProcessesPerReplica);
  EXPECT_EQ(spec["cleanPodPolicy"]["default"], Name(Spec().clean_pod_policy));
  EXPECT_EQ(spec["suspend"]["default"], Spec().suspend);
  EXPECT_EQ(spec["restart"]["properties"]["rules"]["maxItems"], kMaxRules);
  EXPECT_EQ(spec["managedBy"]["maxLength"], kMaxManagedBy);
  EXPECT_EQ(spec["scheduling"]["properties"]["topologyKey"]["maxLength"], kMaxLabelKey);
  EXPECT_EQ(spec["replicas"]["maximum"], kMaxReplicas);
  EXPECT_EQ(spec["progress"]["properties"]["port"]["minimum"], kMinProgressPort);
}

TEST_F(CrdTest, RefusesEveryReservedVariable) {
  const std::string text = schema_.dump();
  for (const char* name : env::kReserved) {
    EXPECT_THAT(text, HasSubstr("'" + std::string(name) + "'"));
  }
}

TEST_F(CrdTest, PhasesAreThoseOfTheCode) {
  Json phases = Json::array();
  for (const Phase phase : {Phase::kPending, Phase::kStarting, Phase::kRunning, Phase::kRestarting,
                            Phase::kSuspended, Phase::kSucceeded, Phase::kFailed}) {
    phases.push_back(Name(phase));
  }
  EXPECT_EQ(schema_["properties"]["status"]["properties"]["phase"]["enum"], phases);
}

}  // namespace
}  // namespace ddp::api
