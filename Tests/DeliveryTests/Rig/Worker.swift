import Delivery
import Postgres
import PushCore
import TestSupport

/// A delivery that a test starts and ends by hand, as a process of its own would be.
final class Worker: Sendable {
    let service: DeliveryService
    private let running: Task<Void, Never>
    private let role: String
    private let rig: DeliveryRig

    fileprivate init(_ service: DeliveryService, role: String, rig: DeliveryRig) {
        self.service = service
        self.role = role
        self.rig = rig
        running = Task { await service.run() }
    }

    /// Takes the database away from the worker, so that nothing of what it has in hand is ever written: what `kill -9`
    /// does to it as far as others can see. Its requests that are out still arrive.
    func cutOff() async throws {
        _ = try await rig.query("ALTER ROLE \(role) NOLOGIN")
        _ = try await rig.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(role)'")
    }

    /// Gives the database back.
    func reconnect() async throws {
        _ = try await rig.query("ALTER ROLE \(role) LOGIN")
    }

    func stop(within limit: Duration = .seconds(5)) async {
        await service.stop(within: limit)
        await running.value
    }

    /// Ends the threads of a worker that was cut off; it does not wait for answers.
    func kill() async {
        await service.stopNow()
        await running.value
    }
}

extension DeliveryRig {
    /// Starts a worker with a database role of its own.
    func startWorker(
        _ name: String = "worker",
        _ change: (inout DeliveryConfiguration) -> Void = { _ in }
    ) async throws -> Worker {
        let role = "\(database.name)_\(name)"
        _ = try await query("CREATE ROLE \(role) LOGIN IN ROLE peal_worker")
        var configuration = configuration()
        let url = configuration.database.connectionString
        let isURI = url.contains("://")
        configuration.database.connectionString = isURI ? "\(url)&user=\(role)" : "\(url) user=\(role)"
        change(&configuration)
        return Worker(try DeliveryService(configuration), role: role, rig: self)
    }

    /// Roles belong to the whole server, so they go when the test ends.
    func dropRoles() async throws {
        let roles = try await texts(
            "SELECT rolname::text FROM pg_roles WHERE starts_with(rolname::text, $1)",
            [.text("\(database.name)_")]
        )
        for role in roles {
            _ = try await query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(role)'")
            _ = try await query("DROP ROLE \(role)")
        }
    }
}
