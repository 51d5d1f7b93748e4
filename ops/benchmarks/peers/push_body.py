"""The body of the pushes, the same as peal's."""

BODY = {
    "aps": {
        "alert": {
            "title": "The sale begins",
            "body": "Half the price on everything today, in all shops and online.",
        },
        "sound": "default",
    },
    "campaign": "sale-1",
    "page": "/sale/today",
}
