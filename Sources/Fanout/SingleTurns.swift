import PushCore

/// Finds the job that lets a lane's turns fail: after such a turn its jobs are taken one by one for a while, and one that
/// fails alone again and again is set aside. Pure.
struct SingleTurns: Sendable {
    /// How often a job may fail alone.
    static var mostFailures: Int { 3 }
    /// Jobs whose failures are remembered; more than that have a cause of their own, which no job is to blame for.
    private static var mostJobs: Int { 100 }

    private var turnsLeft = 0
    private var failures: [JobID: Int] = [:]
    /// How many turns failed since the last one that did not.
    private(set) var failuresInRow = 0

    /// Whether the next turn takes one job.
    var areDue: Bool { turnsLeft > 0 }

    /// A turn of many jobs failed: as many are taken one by one.
    mutating func manyFailed(turns: Int) {
        turnsLeft = max(turns, 1)
        failuresInRow += 1
    }

    /// A job failed alone; true if it is to be set aside.
    mutating func failed(_ job: JobID, turns: Int) -> Bool {
        manyFailed(turns: turns)
        let count = failures[job, default: 0] + 1
        if count >= Self.mostFailures {
            failures[job] = nil
            return true
        }
        if failures.count >= Self.mostJobs { failures.removeAll() }
        failures[job] = count
        return false
    }

    /// A job was taken.
    mutating func succeeded() {
        turnsLeft = max(turnsLeft - 1, 0)
        failuresInRow = 0
    }

    /// No job waits.
    mutating func foundNothing() {
        self = SingleTurns()
    }
}
