import PushCore

extension Content {
    /// The buttons as the app gets them.
    var actionsJSON: JSONValue {
        .array(
            actions.map { action in
                var object = JSONObject()
                object["id"] = .string(action.id)
                object["title"] = .string(action.title)
                object["url"] = action.url.map(JSONValue.string)
                return .object(object)
            }
        )
    }
}
