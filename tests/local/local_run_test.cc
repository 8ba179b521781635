// kubectl-ddp run, for real: what happens when ranks end, are killed, or do not want to stop.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/local/cli_under_test.h"

namespace ddp::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr milliseconds kNothingLeftWithin{2'000};

// Says its own number and that of a child in a session of its own, then waits for ever.
constexpr const char* kStubbornFamily = R"(
setsid sh -c 'sleep 1000' &
say $!
say $$
)";

class LocalRun : public CliTest {
 protected:
  // Each is gone within two seconds, all together.
  static void ExpectGone(const std::vector<pid_t>& pids) {
    const auto start = std::chrono::steady_clock::now();
    for (const pid_t pid : pids) {
      EXPECT_TRUE(WaitForEnd(pid, kNothingLeftWithin)) << "process " << pid << " lives on";
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, kNothingLeftWithin);
  }
};

TEST_F(LocalRun, SucceedsWithEachRanksEnvironment) {
  WriteJob(R"(
say "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $DDP_JOB_NAME $DDP_ATTEMPT ${DDP_CHECKPOINT_DIR##*/.ddp/}"
echo "accuracy of rank $RANK"
)",
           2, "  checkpoint: {path: /c, claimName: c}\n");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  EXPECT_THAT(Hear(2), UnorderedElementsAre("0/2 0 127.0.0.1 job 1 job/checkpoints/default-job",
                                            "1/2 0 127.0.0.1 job 1 job/checkpoints/default-job"));
  EXPECT_THAT(run.Output(), HasSubstr("job succeeded: 2 ranks, 0 restarts"));
  EXPECT_THAT(run.Output(), HasSubstr("\naccuracy of rank 0\n"));
  EXPECT_THAT(run.Output(), Not(HasSubstr("accuracy of rank 1")));
  EXPECT_THAT(run.Output(), HasSubstr("without effect on this machine: image"));
  EXPECT_EQ(ReadFile(folder_ / ".ddp/job/logs/job-1-1.log"), "accuracy of rank 1\n");
  EXPECT_EQ(Status()["phase"], "Succeeded");
  EXPECT_EQ(Status()["succeededRanks"], "0-1");
}

TEST_F(LocalRun, ExpandsVariablesAsKubernetesDoes) {
  Write("job.yaml", R"yaml(
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: job}
spec:
  replicas: 1
  template:
    spec:
      containers:
      - name: worker
        command: [/bin/sh, -c, 'echo "$(WHO)" "$1"; echo "<$WHO> <$OTHER>"', sh]
        args: ['$(RANK)of$(WORLD_SIZE) $$(RANK) $(NOBODY) $$$$']
        env:
        - {name: WHO, value: rank-$(RANK)}
        - {name: OTHER, value: '$(WHO)! $(LATER) $$(WHO)'}
        - {name: LATER, value: x}
)yaml");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  EXPECT_THAT(run.Output(), HasSubstr("\nrank-0 0of1 $(RANK) $(NOBODY) $$\n"));
  EXPECT_THAT(run.Output(), HasSubstr("<rank-0> <rank-0! $(LATER) $(WHO)>"));
}

TEST_F(LocalRun, AFailingRankRestartsTheGroup) {
  // Rank 1 fails once rank 0, which is stopped for it, has had its say.
  ASSERT_EQ(mkfifo((folder_ / "spoken").c_str(), 0600), 0);
  WriteJob(R"(
say "attempt $DDP_ATTEMPT rank $RANK restarts $TORCHELASTIC_RESTART_COUNT"
[ "$DDP_ATTEMPT" = 2 ] && exit 0
spoken=${0%/*}/spoken
[ "$RANK" = 1 ] && { read -r _ <"$spoken"; echo "out of luck" >&2; exit 3; }
echo >"$spoken"
exec sleep 1000
)");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  EXPECT_THAT(Hear(4),
              UnorderedElementsAre("attempt 1 rank 0 restarts 0", "attempt 1 rank 1 restarts 0",
                                   "attempt 2 rank 0 restarts 1", "attempt 2 rank 1 restarts 1"));
  EXPECT_THAT(run.Output(), HasSubstr("rank 1 (pod job-1-1) exited with code 3: out of luck"));
  EXPECT_THAT(run.Output(), HasSubstr("1 restart,"));
  EXPECT_EQ(Status()["restarts"]["application"], 1);
  EXPECT_EQ(Status()["failures"][0]["rank"], 1);
}

// The second attempt says nothing and ends well.
const std::string kFamilyOnce =
    std::string("[ \"$DDP_ATTEMPT\" = 2 ] && exit 0\n") + kStubbornFamily + "exec sleep 1000\n";

TEST_F(LocalRun, AKilledRankRestartsTheGroupAndLeavesNothing) {
  WriteJob(kFamilyOnce);
  Program run = Run();
  const std::vector<pid_t> family = HearPids(4);
  // The second number of a rank is the worker itself; any of them will do.
  kill(family[3], SIGKILL);
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  ExpectGone(family);
  EXPECT_EQ(Status()["attempt"], 2);
}

TEST_F(LocalRun, AKilledSupervisorTakesItsRankWithIt) {
  WriteJob(kFamilyOnce + "# needs the supervisor\n");
  Write("worker.sh", R"(say() { echo "$*" >")" + (folder_ / "news").string() + "\"; }\n" +
                         "[ \"$DDP_ATTEMPT\" = 2 ] && exit 0\nsay $PPID\n" + kStubbornFamily +
                         "exec sleep 1000\n");
  Program run = Run();
  const std::vector<pid_t> family = HearPids(6);
  kill(family[0], SIGKILL);  // whoever spoke first said its parent's number first
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  ExpectGone(family);
  EXPECT_EQ(Status()["attempt"], 2);
}

TEST_F(LocalRun, NothingSurvivesKillNineOfTheProgram) {
  WriteJob(std::string("trap '' TERM INT HUP\n") + kStubbornFamily +
           "while :; do sleep 1000; done\n");
  Program run = Run();
  const std::vector<pid_t> family = HearPids(4);
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  ExpectGone(family);
}

TEST_F(LocalRun, WhatARankLeavesBehindEndsWithIt) {
  WriteJob(std::string(kStubbornFamily) + "exit 0\n");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  ExpectGone(HearPids(4));
}

TEST_F(LocalRun, CtrlCStopsAllWithinTheGrace) {
  WriteJob(R"(
trap 'say "rank $RANK stops"; kill $!; exit 75' TERM
sleep 1000 &
say ready
wait
)");
  Program run = Run();
  Hear(2);
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(milliseconds(4'000)), 130) << run.Output();
  EXPECT_THAT(Hear(2), UnorderedElementsAre("rank 0 stops", "rank 1 stops"));
  EXPECT_THAT(run.Output(), HasSubstr("the same command goes on from the newest checkpoint"));
}

TEST_F(LocalRun, WhoeverIgnoresTheStopIsKilledAfterTheGrace) {
  WriteJob(std::string("trap '' TERM\n") + kStubbornFamily + "while :; do sleep 1000; done\n", 1,
           "",
           /*grace_seconds=*/1);
  Program run = Run();
  const std::vector<pid_t> family = HearPids(2);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(milliseconds(4'000)), 130) << run.Output();
  ExpectGone(family);
}

TEST_F(LocalRun, ASecondCtrlCKillsAtOnce) {
  WriteJob(std::string("trap 'say stubborn' TERM\n") + kStubbornFamily +
               "while :; do sleep 1000 & wait $!; done\n",
           1, "", /*grace_seconds=*/600);
  Program run = Run();
  const std::vector<pid_t> family = HearPids(2);
  run.Signal(SIGINT);
  EXPECT_EQ(Hear(), "stubborn");
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(milliseconds(4'000)), 130) << run.Output();
  ExpectGone(family);
}

TEST_F(LocalRun, AUserErrorFailsWithoutARestart) {
  WriteJob("say $RANK; echo 'config: no such key' >&2; exit 78\n");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Output(),
              HasSubstr("exited with code 78: config: no such key; its exit code says"));
  EXPECT_THAT(run.Output(), HasSubstr("  | config: no such key"));
  EXPECT_EQ(Status()["attempt"], 1);
  EXPECT_EQ(Status()["phase"], "Failed");
}

TEST_F(LocalRun, ASpentBudgetFails) {
  WriteJob("exit 1\n", 2, "  restart: {maxRestarts: 2, backoffSeconds: 0, maxBackoffSeconds: 0}\n");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Output(), HasSubstr("2 of 2 restarts are used (spec.restart.maxRestarts)"));
  EXPECT_EQ(Status()["attempt"], 3);
}

TEST_F(LocalRun, OneRunAJobAtATime) {
  WriteJob("say up; exec sleep 1000\n", 1);
  Program first = Run();
  Hear();
  Program second = Run();
  EXPECT_EQ(second.Wait(), 69);
  EXPECT_THAT(second.Output(), HasSubstr("job 'job' runs already"));
  EXPECT_THAT(second.Output(), HasSubstr("process " + std::to_string(first.pid())));
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait(), 130);
  WriteJob("exit 0\n", 1);
  Program third = Run();
  EXPECT_EQ(third.Wait(), 0) << "the lock is free again";
}

TEST_F(LocalRun, KeepsCheckpointsUnlessFresh) {
  WriteJob(
      "mkdir -p \"$DDP_CHECKPOINT_DIR/step-000000000007\"\n"
      "say $(ls \"$DDP_CHECKPOINT_DIR\" | wc -l)\n"
      "touch \"$DDP_CHECKPOINT_DIR/mark\" \"$DDP_CHECKPOINT_DIR/step-000000000007/state.json\"\n",
      1, "  checkpoint: {path: /c, claimName: c}\n");
  Program first = Run();
  EXPECT_EQ(first.Wait(), 0);
  EXPECT_EQ(Hear(), "1");
  EXPECT_THAT(first.Output(),
              HasSubstr("checkpoint: .ddp/job/checkpoints/default-job/step-000000000007\n"));
  Program second = Run();
  EXPECT_EQ(second.Wait(), 0);
  EXPECT_EQ(Hear(), "2");
  Program fresh = Cli({"run", "-f", "job.yaml", "--fresh"});
  EXPECT_EQ(fresh.Wait(), 0);
  EXPECT_EQ(Hear(), "1");
}

TEST_F(LocalRun, AProgramThatIsNotThereIsNamed) {
  Write("job.yaml",
        R"({"apiVersion": "ddpjob.dev/v1alpha1", "kind": "DDPJob", "metadata": {"name": "job"},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [
      {"name": "worker", "command": ["no-such-program"]}]}}}})");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Output(), HasSubstr("'no-such-program' is not a program on this machine"));
}

// A worker that is no program of ours, but says how far it is.
constexpr const char* kTalkingWorker = R"(
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        body = b'{"step": %d, "totalSteps": 4, "loss": 0.5, "samplesPerSecond": 80}' % min(Handler.asked, 4)
        self.send_response(200 if self.path == "/progress" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(os.environ["DDP_PROGRESS_PORT"])), Handler)
while Handler.asked < 2:
    server.handle_request()
)";

TEST_F(LocalRun, ShowsHowFarRankZeroIs) {
  Write("talk.py", kTalkingWorker);
  WriteJob("exec python3 " + (folder_ / "talk.py").string() + "\n", 1);
  Program run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  EXPECT_THAT(run.Output(), HasSubstr("[job] step 1/4  loss 0.5000  80 samples/s\n"));
}

TEST_F(LocalRun, GivesEachVolumeAFolder) {
  Write("job.yaml", R"yaml(
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: job}
spec:
  replicas: 1
  template:
    spec:
      containers:
      - {name: w, command: [/bin/sh, -c, 'cd $DDP_DATA_DIR && pwd'], volumeMounts: [{name: data, mountPath: /d}]}
      volumes: [{name: data, hostPath: {path: /somewhere}}]
)yaml");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.Output();
  EXPECT_THAT(run.Output(), HasSubstr("/.ddp/job/volumes/data\n"));
}

struct Bad {
  std::string name;
  const char* spec;
  const char* says;
};

TEST_F(LocalRun, BadManifestsAreRefusedWithASentence) {
  const std::string fits(54, 'a');
  for (const auto& [name, spec, says] :
       {Bad{"a", "replica: 2, template: {}",
            "job.yaml: spec.replica: unknown field; did you mean 'replicas'?"},
        Bad{"a", "replicas: 0, template: {spec: {containers: [{name: w, command: [x]}]}}",
            "job.yaml: spec.replicas: must be from 1 to 9999, not 0"},
        Bad{fits + "a", "replicas: 2, template: {spec: {containers: [{name: w, command: [x]}]}}",
            "job.yaml: metadata.name: is 55 characters long; with 2 replicas at most 54 fit"},
        Bad{"a", "replicas: 2, template: {spec: {containers: [{name: w}]}}",
            "job.yaml: spec.template.spec.containers[0].command: is missing"},
        Bad{"a", "replicas: 2, replicas: 3",
            "job.yaml: line 4, column 21: key 'replicas' is given twice"}}) {
    Write("job.yaml", "apiVersion: ddpjob.dev/v1alpha1\nkind: DDPJob\nmetadata: {name: " + name +
                          "}\nspec: {" + spec + "}\n");
    Program run = Run();
    EXPECT_EQ(run.Wait(), 65) << says;
    EXPECT_THAT(run.Output(), HasSubstr(says));
    EXPECT_FALSE(fs::exists(folder_ / ".ddp")) << "nothing was begun";
  }
}

TEST_F(LocalRun, WrongUseHasItsOwnCodes) {
  EXPECT_EQ(Cli({"run", "-f", "nothing.yaml"}).Wait(), 66);
  EXPECT_EQ(Cli({"run"}).Wait(), 64);
  EXPECT_EQ(Cli({"fly"}).Wait(), 64);
  EXPECT_EQ(Cli({"--help"}).Wait(), 0);
  Write("job.yaml", "kind: ConfigMap\n");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 65);
  EXPECT_THAT(run.Output(), HasSubstr("job.yaml: has no DDPJob"));
}

TEST_F(LocalRun, ValidatesAndRendersTheSample) {
  const std::string sample = std::string(DDP_SOURCE_DIR) + "/manifests/samples/mnist.yaml";
  Program validate = Cli({"validate", "-f", sample});
  EXPECT_EQ(validate.Wait(), 0);
  EXPECT_THAT(validate.Output(), HasSubstr("DDPJob 'mnist' is valid: 2 ranks"));
  Program yaml = Cli({"render", "-f", sample});
  EXPECT_EQ(yaml.Wait(), 0);
  const auto objects = json::ParseYaml(yaml.Output());
  ASSERT_TRUE(objects) << yaml.Output();
  ASSERT_EQ(objects->size(), 3U);
  Program text = Cli({"render", "-f", sample, "-o", "json"});
  EXPECT_EQ(text.Wait(), 0);
  EXPECT_EQ((*json::Parse(text.Output()))["items"], json::Json(*objects)) << "YAML and JSON agree";
  EXPECT_EQ((*objects)[2]["metadata"]["name"], "mnist-1-1");
  EXPECT_EQ(Cli({"render", "-f", sample, "--rank", "2"}).Wait(), 64);
  Program version = Cli({"version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.Output(), HasSubstr("kubectl-ddp 0."));
}

// Rank 0 tells of the same step for ever: the local run sees it as the operator would.
TEST_F(LocalRun, AStallEndsTheAttemptHereToo) {
  WriteJob(R"([ "$RANK" = 0 ] || exec sleep 1000
exec python3 -c '
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"{\"step\": 7}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["DDP_PROGRESS_PORT"])), Page).serve_forever()
'
)",
           2, "  progress: {stallTimeoutSeconds: 1, onStall: Fail}\n");
  Program run = Run();
  EXPECT_EQ(run.Wait(), 1) << run.Output();
  EXPECT_THAT(run.Output(), ::testing::HasSubstr("no step after step 7"));
  EXPECT_EQ(Status()["failures"][0]["reason"], "Stalled");
  EXPECT_EQ(Status()["progress"]["step"], 7);
}

}  // namespace
}  // namespace ddp::testing
