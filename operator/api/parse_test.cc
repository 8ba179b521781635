#include "operator/api/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/api/rank_env.h"
#include "operator/api/validate.h"

namespace ddp::api {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMinimal = R"(
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: mnist}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - {name: worker, image: i}
)";

Json Yaml(const std::string& text) { return json::ParseYaml(text)->front(); }

DDPJob Parsed(const Json& object) {
  auto job = ParseJob(object);
  EXPECT_TRUE(job) << (job ? "" : Join(job.error()));
  return job ? *job : DDPJob{};
}

// Sets the value at a JSON pointer of the minimal job.
Json With(const char* pointer, const Json& value) {
  Json object = Yaml(kMinimal);
  object[Json::json_pointer(pointer)] = value;
  return object;
}

TEST(ParseJob, FillsDefaults) {
  const DDPJob job = Parsed(Yaml(kMinimal));
  EXPECT_EQ(job.metadata.name, "mnist");
  EXPECT_EQ(job.metadata.namespace_name, "default");
  EXPECT_EQ(job.spec.replicas, 2);
  EXPECT_EQ(job.spec.rendezvous_port, 29500);
  EXPECT_EQ(job.spec.progress.port, 9410);
  EXPECT_EQ(job.spec.shm_size, "1Gi");
  EXPECT_EQ(job.spec.restart.max_restarts, 3);
  EXPECT_EQ(job.spec.restart.grace_period_seconds, 5);
  EXPECT_FALSE(job.spec.checkpoint);
  EXPECT_THAT(Validate(job), IsEmpty());
}

TEST(ParseJob, GraceIsNeverLongerThanTheTemplates) {
  EXPECT_EQ(Parsed(With("/spec/template/spec/terminationGracePeriodSeconds", 2))
                .spec.restart.grace_period_seconds,
            2);
}

TEST(ParseJob, KeepsTheTemplateAsItIs) {
  const Json odd = {{"spec", {{"containers", {{{"name", "w"}}}}, {"notYetInvented", {1, "2"}}}}};
  EXPECT_EQ(Parsed(With("/spec/template", odd)).spec.pod_template.Parsed(), odd);
}

struct Bad {
  const char* pointer;
  Json value;
  const char* says;
};

TEST(ParseJob, RefusalsNameThePlace) {
  for (const Bad& bad :
       {Bad{"/spec/replica", 2, "spec.replica: unknown field; did you mean 'replicas'?"},
        Bad{"/spec/restart",
            {{"maxRestart", 1}},
            "spec.restart.maxRestart: unknown field; did you mean 'maxRestarts'?"},
        Bad{"/spec/mood", true, "spec.mood: unknown field; known here: activeDeadlineSeconds"},
        Bad{"/spec/suspend", "yes", "spec.suspend: must be true or false, not text"},
        Bad{"/spec/cleanPodPolicy", "Some",
            "spec.cleanPodPolicy: must be one of None, Running, All, not 'Some'"},
        Bad{"/spec/restart",
            {{"rules", {{{"exitCodes", {"1"}}, {"action", "Fail"}}}}},
            "spec.restart.rules[0].exitCodes[0]: must be a whole number, not text"},
        Bad{"/spec/restart",
            {{"rules", {{{"exitCodes", {1}}}}}},
            "spec.restart.rules[0].action: is missing: Fail, Restart or RestartUncounted"},
        Bad{"/spec/restart",
            {{"rules", {{{"exitCode", {1}}, {"action", "Fail"}}}}},
            "spec.restart.rules[0].exitCode: unknown field; did you mean 'exitCodes'?"},
        Bad{"/spec/restart", {{"rules", "all"}}, "spec.restart.rules: must be a list"},
        Bad{"/spec/replicas", "2", "spec.replicas: must be a whole number, not text"},
        Bad{"/spec/replicas", 1.5, "spec.replicas: must be a whole number, not a number with"},
        Bad{"/spec/replicas", nullptr, "spec.replicas: is missing"},
        Bad{"/spec/template", nullptr, "spec.template: is missing"},
        Bad{"/spec/template", "x", "spec.template: must be an object, not text"},
        Bad{"/spec/shm", {{"size", 1}}, "spec.shm.size: must be text, not a whole number: put it"},
        Bad{"/spec/checkpoint", {{"path", "/c"}}, "spec.checkpoint.claimName: is missing"},
        Bad{"/spec/checkpoint",
            {{"path", "/c"}, {"claimName", "c"}, {"mount", "Some"}},
            "spec.checkpoint.mount: must be one of Rank0, All, not 'Some'"},
        Bad{"/spec/checkpoint",
            {{"path", "/c"}, {"claimName", "c"}, {"retain", "Keep"}},
            "spec.checkpoint.retain: is for a claim from claimTemplate"},
        Bad{"/spec/checkpoint",
            {{"path", "/c"}, {"claimName", "c"}, {"claimTemplate", {{"spec", Json::object()}}}},
            "spec.checkpoint.claimName: must not be given together with claimTemplate"},
        Bad{"/spec/checkpoint",
            {{"path", "/c"}, {"claimTemplate", {{"spec", Json::object()}}}},
            "spec.checkpoint.claimTemplate.spec.accessModes: is missing"},
        Bad{"/kind", "Job", "kind: must be DDPJob, not 'Job'"},
        Bad{"/apiVersion", "v1", "apiVersion: must be ddpjob.dev/v1alpha1, not 'v1'"},
        Bad{"/metadata", Json::object(), "metadata.name: is missing"},
        Bad{"/spec", nullptr, "spec: is missing"}}) {
    const auto job = ParseJob(With(bad.pointer, bad.value));
    ASSERT_FALSE(job) << bad.pointer;
    EXPECT_THAT(Join(job.error()), HasSubstr(bad.says));
  }
}

TEST(Validate, RefusalsNameThePlace) {
  const Json worker = {{"name", "worker"}};
  const auto containers = [](const Json& container) { return Json::array({container}); };
  for (const Bad& bad :
       {Bad{"/spec/replicas", 0, "spec.replicas: must be from 1 to 9999, not 0"},
        Bad{"/spec/replicas", 10'000, "spec.replicas: must be from 1 to 9999, not 10000"},
        Bad{"/spec/replicas", -5'000'000'000, "spec.replicas: must be from 1 to 9999"},
        Bad{"/metadata/name", "Mnist", "metadata.name: 'Mnist' must be lower-case"},
        Bad{"/metadata/name", "9mnist", "start with a letter"},
        Bad{"/metadata/name", "mnist.a", "metadata.name: 'mnist.a' must be"},
        Bad{"/metadata/name", std::string(55, 'a'),
            "metadata.name: is 55 characters long; with 2 replicas at most 54 fit"},
        Bad{"/metadata/namespace", "../up", "metadata.namespace: '../up' is not a name"},
        Bad{"/spec/template/spec/volumes", Json::array({{{"name", "../up"}}}),
            "spec.template.spec.volumes[0].name: '../up' must be lower-case"},
        Bad{"/spec/progress", {{"port", 80}}, "spec.progress.port: must be from 1024 to 65535"},
        Bad{"/spec/progress", {{"port", 29500}}, "29500 is the rendezvous port too"},
        Bad{"/spec/progress", {{"port", 65536}}, "spec.progress.port: must be from 1024 to 65535"},
        Bad{"/spec/progress",
            {{"stallTimeoutSeconds", -1}},
            "spec.progress.stallTimeoutSeconds: must be from 0 to 604800"},
        Bad{"/spec/startupTimeoutSeconds", -1, "spec.startupTimeoutSeconds: must be from 0"},
        Bad{"/spec/activeDeadlineSeconds", 0, "spec.activeDeadlineSeconds: must be from 1"},
        Bad{"/spec/ttlSecondsAfterFinished", -1, "spec.ttlSecondsAfterFinished: must be from 0"},
        Bad{"/spec/processesPerReplica", 0, "spec.processesPerReplica: must be from 1 to 64"},
        Bad{"/spec/managedBy", "me", "spec.managedBy: 'me' must be a name with a domain"},
        Bad{"/spec/scheduling", {{"queue", "Q"}}, "spec.scheduling.queue: 'Q' is not a name"},
        Bad{"/spec/scheduling", {{"topologyKey", "a b"}}, "spec.scheduling.topologyKey: 'a b'"},
        Bad{"/spec/restart",
            {{"rules", {{{"action", "Fail"}}}}},
            "spec.restart.rules[0]: must have either exitCodes or reasons"},
        Bad{"/spec/restart",
            {{"rules", {{{"exitCodes", {1}}, {"reasons", {"A"}}, {"action", "Fail"}}}}},
            "spec.restart.rules[0]: must have either exitCodes or reasons"},
        Bad{"/spec/restart",
            {{"rules", {{{"exitCodes", {0}}, {"action", "Fail"}}}}},
            "spec.restart.rules[0].exitCodes[0]: must be from 1 to 255, not 0"},
        Bad{"/spec/restart",
            {{"rules", {{{"reasons", {"no word"}}, {"action", "Fail"}}}}},
            "spec.restart.rules[0].reasons[0]: 'no word' must be a word"},
        Bad{"/spec/rendezvous", {{"port", 0}}, "spec.rendezvous.port: must be from 1 to 65535"},
        Bad{"/spec/shm", {{"size", "big"}}, "spec.shm.size: 'big' must be a size"},
        Bad{"/spec/shm", {{"size", "0"}}, "spec.shm.size: '0' must be a size"},
        Bad{"/spec/restart", {{"maxRestarts", -1}}, "spec.restart.maxRestarts: must be from 0"},
        Bad{"/spec/restart",
            {{"backoffSeconds", 9}, {"maxBackoffSeconds", 5}},
            "spec.restart.maxBackoffSeconds: 5 must not be less than backoffSeconds, 9"},
        Bad{"/spec/checkpoint",
            {{"path", "ckpt"}, {"claimName", "c"}},
            "spec.checkpoint.path: 'ckpt' must be an absolute folder"},
        Bad{"/spec/checkpoint", {{"path", "/a/../b"}, {"claimName", "c"}}, "must be an absolute"},
        Bad{"/spec/checkpoint",
            {{"path", "/c"}, {"claimName", ""}},
            "claimName: must not be empty"},
        Bad{"/spec/template/spec/containers", Json::array(),
            "spec.template.spec.containers: must list at least one container"},
        Bad{"/spec/template/spec/restartPolicy", "OnFailure",
            "spec.template.spec.restartPolicy: must be Never or absent, not OnFailure"},
        Bad{"/spec/template/spec/hostname", "h", "spec.template.spec.hostname: must be absent"},
        Bad{"/spec/template/spec/subdomain", "s", "spec.template.spec.subdomain: must be absent"},
        Bad{"/spec/template/spec/setHostnameAsFQDN", true, "setHostnameAsFQDN: must be absent"},
        Bad{"/spec/template/metadata",
            {{"labels", {{"ddpjob.dev/rank", "9"}}}},
            "spec.template.metadata.labels[ddpjob.dev/rank]: must be absent"},
        Bad{"/spec/template/spec/containers",
            containers({{"name", "a"}, {"env", {{{"name", "RANK"}, {"value", "1"}}}}}),
            "spec.template.spec.containers[0].env[0].name: RANK is set by the operator"},
        Bad{"/spec/template/spec/containers",
            containers(
                {{"name", "a"}, {"volumeMounts", {{{"name", "v"}, {"mountPath", "/dev/shm/"}}}}}),
            "spec.template.spec.containers[0].volumeMounts[0].mountPath: /dev/shm belongs"},
        Bad{"/spec/template/spec/containers", Json::array({worker, worker}),
            "spec.template.spec.containers[1].name: 'worker' is there twice"},
        Bad{"/spec/template/spec/containers", containers({{"image", "a"}}),
            "spec.template.spec.containers[0].name: is missing"},
        Bad{"/spec/template/spec/volumes", Json::array({{{"name", "ddp-shm"}}}),
            "spec.template.spec.volumes[0].name: 'ddp-shm' is a volume of the operator's"},
        Bad{"/spec/template/spec/volumes", Json::array({{{"name", "v"}}, {{"name", "v"}}}),
            "spec.template.spec.volumes[1].name: 'v' is there twice"}}) {
    EXPECT_THAT(Join(Validate(Parsed(With(bad.pointer, bad.value)))), HasSubstr(bad.says));
  }
}

TEST(Validate, HostNetworkAndHostIpcNeedAllRanksOfANodeInOnePod) {
  Json object = With("/spec/template/spec/hostNetwork", true);
  EXPECT_THAT(Validate(Parsed(object)), IsEmpty());
  object["spec"]["template"]["spec"]["hostIPC"] = true;
  EXPECT_THAT(Join(Validate(Parsed(object))),
              HasSubstr("spec.template.spec.hostIPC: must not be true together with hostNetwork"));
  object["spec"]["processesPerReplica"] = 8;
  EXPECT_THAT(Validate(Parsed(object)), IsEmpty());
  object["spec"]["processesPerReplica"] = 1;
  object["spec"]["replicas"] = 1;
  EXPECT_THAT(Validate(Parsed(object)), IsEmpty());
}

TEST(RankEnv, SeveralProcessesGetWhatTheirLauncherNeeds) {
  Json object = With("/spec/processesPerReplica", 4);
  object["metadata"]["uid"] = "u";
  std::vector<std::string> names;
  std::string values;
  for (const auto& [name, value] : RankEnv(Parsed(object), 2, 1)) {
    names.push_back(name);
    values += name + "=" + value + " ";
  }
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "MASTER_ADDR", "MASTER_PORT", "PET_NNODES", "PET_NPROC_PER_NODE",
                         "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "NODE_RANK",
                         "DDP_JOB_NAME", "DDP_JOB_UID", "DDP_ATTEMPT", "DDP_PROGRESS_PORT"));
  EXPECT_THAT(values, HasSubstr("PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_NODE_RANK=1 "));
}

TEST(Validate, EveryProcessNeedsAProgressPort) {
  Json object = With("/spec/processesPerReplica", 8);
  object["spec"]["progress"] = {{"port", 65529}};
  EXPECT_THAT(Join(Validate(Parsed(object))), HasSubstr("65529 leaves no port for each of 8"));
  object["spec"]["progress"] = {{"port", 29493}};
  EXPECT_THAT(Join(Validate(Parsed(object))), HasSubstr("include the rendezvous port too, 29500"));
  object["spec"]["progress"] = {{"port", 29492}};
  EXPECT_THAT(Validate(Parsed(object)), IsEmpty());
}

TEST(ParseJob, MountsTheClaimEverywhereWhereThatIsSafe) {
  const auto mount = [](int replicas, const Json& checkpoint) {
    Json object = With("/spec/checkpoint", checkpoint);
    object["spec"]["replicas"] = replicas;
    return Name(Parsed(object).spec.checkpoint->mount);
  };
  const auto templated = [](const char* mode) -> Json {
    return {{"path", "/c"},
            {"claimTemplate",
             {{"spec",
               {{"accessModes", {mode}}, {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}}}};
  };
  const Json named = {{"path", "/c"}, {"claimName", "c"}};
  EXPECT_STREQ(mount(2, named), "Rank0");
  EXPECT_STREQ(mount(1, named), "All");
  EXPECT_STREQ(mount(2, templated("ReadWriteOnce")), "Rank0");
  EXPECT_STREQ(mount(2, templated("ReadWriteMany")), "All");
  EXPECT_STREQ(mount(2, {{"path", "/c"}, {"claimName", "c"}, {"mount", "All"}}), "All");
}

TEST(ParseJob, ASpecReadBackIsTheSame) {
  Json object = Yaml(kMinimal);
  object["spec"].update(Yaml(R"(
processesPerReplica: 4
checkpoint:
  path: /c
  claimTemplate: {spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}
  retain: Delete
restart:
  rules:
  - {exitCodes: [3, 4], action: Fail}
  - {reasons: [OOMKilled], action: RestartUncounted}
startupTimeoutSeconds: 60
progress: {stallTimeoutSeconds: 120, onStall: Report}
suspend: true
activeDeadlineSeconds: 3600
ttlSecondsAfterFinished: 0
cleanPodPolicy: All
managedBy: example.com/other
scheduling: {gang: Kubernetes, queue: q, topologyKey: topology.kubernetes.io/zone, topologyMode: Required}
)"));
  const DDPJob job = Parsed(object);
  EXPECT_THAT(Validate(job), IsEmpty());
  EXPECT_EQ(job.spec.restart.rules.size(), 2U);
  EXPECT_EQ(job.spec.scheduling.topology_mode, TopologyMode::kRequired);
  EXPECT_EQ(job.spec.ttl_seconds_after_finished, 0);
  EXPECT_EQ(job.spec.ranks(), 8);
  object["spec"] = SpecToJson(job.spec);
  EXPECT_EQ(Parsed(object).spec, job.spec);
}

TEST(Validate, TheCheckpointMustNotBeCovered) {
  Json object = With("/spec/checkpoint", {{"path", "/c"}, {"claimName", "claim"}});
  for (const auto& [path, refused] :
       {std::pair{"/c", true}, {"/c/", true}, {"/c/x", true}, {"/cc", false}, {"/", false}}) {
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = {
        {{"name", "v"}, {"mountPath", path}}};
    EXPECT_EQ(!Validate(Parsed(object)).empty(), refused) << path;
  }
}

TEST(Validate, OnlyTheWorkersVariablesAreReserved) {
  const Json side = {{"name", "side"}, {"env", {{{"name", "RANK"}, {"value", "1"}}}}};
  EXPECT_THAT(Validate(Parsed(With("/spec/template/spec/containers",
                                   Json::array({side, {{"name", "worker"}}})))),
              IsEmpty());
}

TEST(Names, FitForEveryAllowedJob) {
  for (const int replicas : {1, 2, 10, 11, 100, 101, 1000, 9999}) {
    const size_t limit = MaxJobNameLength(replicas);
    const std::string longest(limit, 'a');
    EXPECT_EQ(PodName(longest, 999'999, replicas - 1).size(), kMaxLabelLength) << replicas;
    DDPJob job = Parsed(With("/metadata/name", longest));
    job.spec.replicas = replicas;
    EXPECT_THAT(Validate(job), IsEmpty());
    job.metadata.name += 'a';
    EXPECT_THAT(Join(Validate(job)), HasSubstr("metadata.name: is"));
  }
}

std::string ValueOf(const EnvList& env, std::string_view name) {
  for (const auto& [key, value] : env) {
    if (key == name) {
      return value;
    }
  }
  return "(none)";
}

TEST(RankEnv, IsTheDocumentedTable) {
  Json object = With("/spec/checkpoint", {{"path", "/ckpt"}, {"claimName", "c"}});
  object["metadata"]["uid"] = "u";
  object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = {
      {{"name", "data"}, {"mountPath", "/data"}}};
  DDPJob job = Parsed(object);
  job.status.restarts = {.application = 2, .infrastructure = 1};
  const EnvList env = RankEnv(job, 4, 1);
  const std::pair<const char*, const char*> table[] = {
      {"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "1"},
      {"ROLE_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "mnist-4-0.mnist.default.svc"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "u"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"PET_NNODES", "2"},
      {"PET_NPROC_PER_NODE", "1"},
      {"PET_NODE_RANK", "1"},
      {"PET_MASTER_ADDR", "mnist-4-0.mnist.default.svc"},
      {"PET_MASTER_PORT", "29500"},
      {"NODE_RANK", "1"},
      {"DDP_JOB_NAME", "mnist"},
      {"DDP_JOB_UID", "u"},
      {"DDP_ATTEMPT", "4"},
      {"DDP_CHECKPOINT_DIR", "/ckpt/default-mnist"},
      {"DDP_PROGRESS_PORT", "9410"},
      {"DDP_DATA_DIR", "/data"}};
  EXPECT_EQ(env.size(), std::size(table));
  for (const auto& [name, value] : table) {
    EXPECT_EQ(ValueOf(env, name), value) << name;
    EXPECT_THAT(env::kReserved, Contains(std::string_view(name)));
  }
  EXPECT_EQ(std::size(env::kReserved), std::size(table));
}

TEST(RankEnv, ABodyMayPlaceItElsewhere) {
  const DDPJob job = Parsed(Yaml(kMinimal));
  const EnvList env = RankEnv(job, 1, 0,
                              {.master_addr = "127.0.0.1",
                               .master_port = 7,
                               .progress_port = 8,
                               .checkpoint_dir = "",
                               .data_dir = "/d"});
  EXPECT_EQ(ValueOf(env, "MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(ValueOf(env, "PET_MASTER_PORT"), "7");
  EXPECT_EQ(ValueOf(env, "DDP_PROGRESS_PORT"), "8");
  EXPECT_EQ(ValueOf(env, "DDP_DATA_DIR"), "/d");
  EXPECT_EQ(ValueOf(env, "DDP_CHECKPOINT_DIR"), "(none)");
}

TEST(Status, SurvivesDamage) {
  EXPECT_EQ(StatusFromJson(Json("x")), Status{});
  EXPECT_EQ(StatusFromJson({{"phase", 7}, {"conditions", "none"}, {"failures", {1, 2}}}).phase,
            Phase::kPending);
}

TEST(Status, ConditionsKeepTheirTransitionTime) {
  Status status;
  const TimePoint first{std::chrono::seconds(100)};
  const TimePoint later{std::chrono::seconds(200)};
  SetCondition(status, "Ready", ConditionStatus::kFalse, "A", "a", 1, first);
  SetCondition(status, "Ready", ConditionStatus::kFalse, "B", "b", 2, later);
  EXPECT_EQ(FindCondition(status, "Ready")->last_transition_time, first);
  EXPECT_EQ(FindCondition(status, "Ready")->reason, "B");
  SetCondition(status, "Ready", ConditionStatus::kTrue, "C", "c", 2, later);
  EXPECT_EQ(FindCondition(status, "Ready")->last_transition_time, later);
  EXPECT_EQ(status.conditions.size(), 1U);
}

}  // namespace
}  // namespace ddp::api
