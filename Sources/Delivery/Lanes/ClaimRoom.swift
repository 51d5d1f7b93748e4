import PushCore

/// How many batches a worker may claim, and of which apps it has enough: one that is slow must not fill the worker.
struct ClaimRoom: Equatable {
    /// What counts of a batch in hand.
    struct Batch {
        let app: AppID
        let messages: Int
        let isSlow: Bool
    }

    var limit = 0
    var excludedApps: [AppID] = []
    /// Whether there are apps that it has enough of, and claims again when it has less.
    var leavesBehind = false

    /// - Parameter others: apps that are not claimed whatever room there is.
    init(_ batches: some Sequence<Batch>, settings: LaneSettings, leavingOut others: Set<AppID> = []) {
        var total = 0
        var brisk = 0
        var messages = 0
        var briskByApp: [AppID: Int] = [:]
        var messagesByApp: [AppID: Int] = [:]
        var slowByApp: [AppID: Int] = [:]
        for batch in batches {
            total += 1
            if batch.isSlow {
                slowByApp[batch.app, default: 0] += 1
            } else {
                brisk += 1
                messages += batch.messages
                briskByApp[batch.app, default: 0] += 1
                messagesByApp[batch.app, default: 0] += batch.messages
            }
        }
        guard messages < settings.messageLimit * 2 else { return }
        let free = min(settings.batchLimit - brisk, settings.hardBatchLimit - total)
        // A claim takes a part of what is free, so that one app does not fill the rest before its share is looked at.
        limit = max(0, min(settings.claimLimit, (free + 3) / 4))
        // A part of the places stays free for whoever comes next, and the last ones for apps that have nothing in hand.
        let isLast = free <= settings.batchLimit / 8
        let share = isLast ? 1 : max(1, settings.batchLimit * 3 / 4)
        var enough = Set(briskByApp.filter { $0.value >= share }.keys)
        if isLast { enough.formUnion(slowByApp.keys) }
        enough.formUnion(messagesByApp.filter { $0.value >= settings.messageLimit }.keys)
        enough.formUnion(slowByApp.filter { $0.value >= settings.slowLimit }.keys)
        leavesBehind = !enough.isEmpty
        excludedApps = enough.union(others).sorted()
    }
}
