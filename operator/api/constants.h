// Every name and limit of the API in one place: labels, variables, reasons, limits, exit codes.
// What the runtime must agree on (variables, exit codes) is compared with its headers by
// tests/contract_test.cc.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::api {

inline constexpr const char* kGroup = "ddpjob.dev";
inline constexpr const char* kVersion = "v1alpha1";
inline constexpr const char* kApiVersion = "ddpjob.dev/v1alpha1";
inline constexpr const char* kKind = "DDPJob";
inline constexpr const char* kPlural = "ddpjobs";

// Labels of pods and services. The prefix belongs to the operator: a template may not use it.
inline constexpr const char* kLabelPrefix = "ddpjob.dev/";
inline constexpr const char* kJobNameLabel = "ddpjob.dev/job-name";
inline constexpr const char* kJobUidLabel = "ddpjob.dev/job-uid";
inline constexpr const char* kAttemptLabel = "ddpjob.dev/attempt";
inline constexpr const char* kRankLabel = "ddpjob.dev/rank";        // of a pod's first rank
inline constexpr const char* kReplicaLabel = "ddpjob.dev/replica";  // which pod of the attempt
// The value of spec.managedBy that means this operator.
inline constexpr const char* kManagedBy = "ddpjob.dev/operator";

// On a job: a time; a restart of the whole group is wanted, once for each later time.
inline constexpr const char* kRestartAnnotation = "ddpjob.dev/restart-requested";

// Inside a pod.
inline constexpr const char* kWorkerContainer = "worker";
inline constexpr const char* kShmVolume = "ddp-shm";
inline constexpr const char* kShmPath = "/dev/shm";
inline constexpr const char* kCheckpointVolume = "ddp-checkpoint";
inline constexpr const char* kDataVolume = "data";  // where it is mounted becomes DDP_DATA_DIR
inline constexpr const char* kRendezvousPortName = "ddp-rendezvous";
inline constexpr const char* kProgressPortName = "ddp-progress";
// Makes a claim writable for whatever user the image runs as, where the template names no group.
inline constexpr int kDefaultFsGroup = 65532;

// Limits.
inline constexpr size_t kMaxLabelLength = 63;  // DNS-1035 label, label value
// A pod's name is <job>-<attempt>-<rank>; attempts up to 999999 fit.
inline constexpr int kAttemptDigits = 6;
inline constexpr int kMaxReplicas = 9999;
inline constexpr int kMaxProcessesPerReplica = 64;
inline constexpr int kMaxPort = 65535;
inline constexpr int kMinProgressPort = 1024;
inline constexpr int kMaxRestartsLimit = 1'000'000;
inline constexpr int kMaxSecondsLimit = 86'400;
inline constexpr int kMaxTimeoutSeconds = 604'800;  // a week
inline constexpr size_t kMaxRules = 20;
inline constexpr size_t kMaxRuleItems = 64;  // exit codes or reasons of one
inline constexpr int kMaxExitCode = 255;
inline constexpr size_t kMaxManagedBy = 63;
inline constexpr size_t kMaxLabelKey = 317;         // prefix of 253, '/', name of 63
inline constexpr size_t kMaxFailures = 5;           // kept in status, newest first
inline constexpr size_t kMaxFailureMessage = 1024;  // the last bytes of a log
inline constexpr size_t kMaxConditionMessage = 2048;
inline constexpr size_t kMaxEventMessage = 1000;            // events.k8s.io allows 1 KiB
inline constexpr size_t kMaxCrdBytes = size_t{256} * 1024;  // what plain `kubectl apply` can carry

// Defaults of the spec.
inline constexpr int kDefaultRendezvousPort = 29500;
inline constexpr int kDefaultProgressPort = 9410;
inline constexpr int kDefaultMaxRestarts = 3;
inline constexpr int kDefaultMaxUncountedRestarts = 20;
inline constexpr int kDefaultBackoffSeconds = 1;
inline constexpr int kDefaultMaxBackoffSeconds = 300;
inline constexpr int kDefaultGraceSeconds = 5;
inline constexpr int kKubernetesGraceSeconds = 30;  // a pod that says nothing
inline constexpr int kDefaultStartupTimeoutSeconds = 600;
inline constexpr const char* kDefaultShmSize = "1Gi";

// Times of the policies (design: "Rules that hold").
inline constexpr std::chrono::minutes kBudgetRenewal{10};     // of running: failures start anew
inline constexpr std::chrono::minutes kProvisionalWindow{6};  // a booked cause may still move
inline constexpr std::chrono::seconds kExhaustedWait{60};     // before failing on such a cause
inline constexpr std::chrono::seconds kPeerSettle{3};         // for the peer that others blame
inline constexpr std::chrono::seconds kTerminationMargin{2};  // past a pod's grace, then it is lost
inline constexpr std::chrono::seconds kBlockedRetry{10};      // a foreign service, a refused pod
// When a node is asked for whose pod ended without a word: a kubelet that is silent for 50 s makes
// its node NotReady; the second look is for one that died later than it seemed.
inline constexpr std::chrono::seconds kFirstNodeLook{55};
inline constexpr std::chrono::seconds kSecondNodeLook{180};

// Condition types.
inline constexpr const char* kConditionReady = "Ready";
inline constexpr const char* kConditionProgressing = "Progressing";
inline constexpr const char* kConditionSuspended = "Suspended";
inline constexpr const char* kConditionStalled = "Stalled";
inline constexpr const char* kConditionProgressAvailable = "ProgressAvailable";
inline constexpr const char* kConditionTransportWarning = "TransportWarning";
inline constexpr const char* kConditionSucceeded = "Succeeded";
inline constexpr const char* kConditionFailed = "Failed";

// Reasons of conditions, events and failures.
inline constexpr const char* kReasonCreated = "Created";
inline constexpr const char* kReasonStarting = "Starting";
inline constexpr const char* kReasonRunning = "Running";
inline constexpr const char* kReasonAllReady = "AllRanksReady";
inline constexpr const char* kReasonNotAllReady = "RanksNotReady";
inline constexpr const char* kReasonRestarting = "Restarting";
inline constexpr const char* kReasonBackoff = "BackingOff";
inline constexpr const char* kReasonStopping = "StoppingGroup";
inline constexpr const char* kReasonAwaitingCause = "AwaitingCause";
inline constexpr const char* kReasonSucceeded = "AllRanksSucceeded";
inline constexpr const char* kReasonFinished = "Finished";
inline constexpr const char* kReasonInvalidSpec = "InvalidSpec";
inline constexpr const char* kReasonPodRefused = "PodRefused";
inline constexpr const char* kReasonPodCreateFailed = "PodCreateFailed";
inline constexpr const char* kReasonServiceNameTaken = "ServiceNameTaken";
inline constexpr const char* kReasonPodNameTaken = "PodNameTaken";
inline constexpr const char* kReasonStatusLost = "StatusLost";
inline constexpr const char* kReasonUnschedulable = "Unschedulable";
inline constexpr const char* kReasonMaxRestarts = "MaxRestartsExceeded";
inline constexpr const char* kReasonMaxUncounted = "MaxUncountedRestartsExceeded";
inline constexpr const char* kReasonUserError = "UserError";                // exit 64, 65, 66, 78
inline constexpr const char* kReasonRendezvousFailed = "RendezvousFailed";  // every rank ended 69
inline constexpr const char* kReasonPeerLost = "PeerLost";         // ended 69, the peer is silent
inline constexpr const char* kReasonStopped = "StoppedOnRequest";  // exit 75
inline constexpr const char* kReasonPodDeleted = "PodDeleted";     // not by the operator
inline constexpr const char* kReasonOomKilled = "OOMKilled";       // the kubelet's word
inline constexpr const char* kReasonError = "Error";
inline constexpr const char* kReasonNodeLost = "NodeLost";  // its node is gone or unreachable
inline constexpr const char* kReasonStartupTimeout = "StartupTimeout";
inline constexpr const char* kReasonStalled = "Stalled";
inline constexpr const char* kReasonNewStep = "NewStep";
inline constexpr const char* kReasonDeadline = "DeadlineExceeded";
inline constexpr const char* kReasonRule = "RestartRule";  // spec.restart.rules say Fail
inline constexpr const char* kReasonSuspended = "Suspended";
inline constexpr const char* kReasonResumed = "Resumed";
inline constexpr const char* kReasonRestartRequested = "RestartRequested";
inline constexpr const char* kReasonPulled = "Pulled";
inline constexpr const char* kReasonUnreachable = "Unreachable";
inline constexpr const char* kReasonHostNetwork = "HostNetwork";
inline constexpr const char* kReasonGpuLimit = "GpuLimitDiffers";
inline constexpr const char* kReasonSharedNode = "OneGpuPodsShareNode";
inline constexpr const char* kReasonSpread = "PodsOnDifferentNodes";
inline constexpr const char* kReasonClaimNameTaken = "ClaimNameTaken";
inline constexpr const char* kReasonPolicyNameTaken = "NetworkPolicyNameTaken";
inline constexpr const char* kReasonPodGroupNameTaken = "PodGroupNameTaken";
inline constexpr const char* kReasonGangUnavailable = "GangUnavailable";

// Exit codes of the worker container that have a meaning (sysexits.h where it has one).
enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,
  kData = 65,
  kNoInput = 66,
  kUnavailable = 69,
  kSoftware = 70,
  kTempFail = 75,
  kConfig = 78,
};
inline constexpr int kExitKilled = 137;      // 128 + SIGKILL
inline constexpr int kExitTerminated = 143;  // 128 + SIGTERM

// What each rank finds in its environment. Set by the user they are errors.
namespace env {
inline constexpr const char* kRank = "RANK";
inline constexpr const char* kWorldSize = "WORLD_SIZE";
inline constexpr const char* kLocalRank = "LOCAL_RANK";
inline constexpr const char* kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kGroupRank = "GROUP_RANK";
inline constexpr const char* kGroupWorldSize = "GROUP_WORLD_SIZE";
inline constexpr const char* kRoleName = "ROLE_NAME";
inline constexpr const char* kRoleRank = "ROLE_RANK";
inline constexpr const char* kRoleWorldSize = "ROLE_WORLD_SIZE";
inline constexpr const char* kMasterAddr = "MASTER_ADDR";
inline constexpr const char* kMasterPort = "MASTER_PORT";
inline constexpr const char* kRunId = "TORCHELASTIC_RUN_ID";
inline constexpr const char* kRestartCount = "TORCHELASTIC_RESTART_COUNT";
inline constexpr const char* kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr const char* kPetNnodes = "PET_NNODES";
inline constexpr const char* kPetNprocPerNode = "PET_NPROC_PER_NODE";
inline constexpr const char* kPetNodeRank = "PET_NODE_RANK";
inline constexpr const char* kPetMasterAddr = "PET_MASTER_ADDR";
inline constexpr const char* kPetMasterPort = "PET_MASTER_PORT";
inline constexpr const char* kNodeRank = "NODE_RANK";
inline constexpr const char* kJobName = "DDP_JOB_NAME";
inline constexpr const char* kJobUid = "DDP_JOB_UID";
inline constexpr const char* kAttempt = "DDP_ATTEMPT";
inline constexpr const char* kCheckpointDir = "DDP_CHECKPOINT_DIR";
inline constexpr const char* kProgressPort = "DDP_PROGRESS_PORT";
inline constexpr const char* kDataDir = "DDP_DATA_DIR";

inline constexpr const char* kReserved[] = {
    kRank,          kWorldSize,   kLocalRank,     kLocalWorldSize,  kGroupRank,   kGroupWorldSize,
    kRoleName,      kRoleRank,    kRoleWorldSize, kMasterAddr,      kMasterPort,  kRunId,
    kRestartCount,  kMaxRestarts, kPetNnodes,     kPetNprocPerNode, kPetNodeRank, kPetMasterAddr,
    kPetMasterPort, kNodeRank,    kJobName,       kJobUid,          kAttempt,     kCheckpointDir,
    kProgressPort,  kDataDir};
}  // namespace env

}  // namespace ddp::api
