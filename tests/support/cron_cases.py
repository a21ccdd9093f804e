"""The zones and expressions that the scheduler's clocks are proven on."""

from __future__ import annotations

ZONES = [
    "Australia/Lord_Howe", "Pacific/Chatham", "Antarctica/Troll", "Africa/Casablanca", "Africa/El_Aaiun",
    "America/Havana", "Asia/Beirut", "America/Santiago", "Pacific/Apia", "America/St_Johns", "Pacific/Easter",
    "Pacific/Norfolk", "Pacific/Auckland", "Pacific/Fiji", "Antarctica/McMurdo", "Antarctica/Casey",
    "Antarctica/Macquarie", "Antarctica/Vostok", "Australia/Sydney", "Australia/Adelaide", "Australia/Hobart",
    "Australia/Melbourne", "Australia/Broken_Hill", "Africa/Cairo", "Africa/Juba", "Africa/Ceuta",
    "Asia/Jerusalem", "Asia/Gaza", "Asia/Hebron", "Asia/Amman", "Asia/Damascus", "Asia/Tehran", "Asia/Almaty",
    "Asia/Nicosia", "Asia/Famagusta", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon",
    "Europe/Madrid", "Europe/Paris", "Europe/Rome", "Europe/Warsaw", "Europe/Athens", "Europe/Helsinki",
    "Europe/Kyiv", "Europe/Chisinau", "Europe/Volgograd", "Atlantic/Azores", "Atlantic/Bermuda",
    "Atlantic/Canary", "Atlantic/Faroe", "Atlantic/Madeira", "America/New_York", "America/Chicago",
    "America/Denver", "America/Los_Angeles", "America/Anchorage", "America/Adak", "America/Halifax",
    "America/Toronto", "America/Winnipeg", "America/Asuncion", "America/Nuuk", "America/Scoresbysund",
    "America/Danmarkshavn", "America/Miquelon", "America/Tijuana", "America/Port-au-Prince", "America/Nassau",
    "America/Mexico_City", "America/Ojinaga", "America/Whitehorse", "America/Punta_Arenas", "America/Coyhaique",
]  # fmt: skip
"""With half-hour changes, changes at midnight, negative summer times, zones that came to an end, and new ones."""

_FIXED_TIMES = [f"{minute} {hour} * * *" for hour in range(5) for minute in (0, 5, 15, 29, 30, 45, 59)]
_LATE_TIMES = [f"{minute} {hour} * * *" for hour in (12, 21, 22, 23) for minute in (0, 30, 59)]
_LISTS = [
    f"{minutes} {hours} * * *"
    for minutes in ("0,30", "15,45", "0-10", "50-59/3", "7,8,9", "1-59/13")
    for hours in ("0,1,2,3", "1-3", "0-23", "0-23/2", "2", "23,0", "2,14", "1-5/2")
]
_PASSINGS = [f"{minutes} {hours} * * *" for minutes in ("*", "*/7", "*/15", "*/20") for hours in ("0", "1", "2", "3")]
_PASSINGS += [
    f"{minutes} {hours} * * *" for minutes in ("0", "30", "17", "5,55") for hours in ("*", "*/2", "*/3", "*/5")
]
_PASSINGS += [
    f"{minutes} {hours} * * *" for minutes in ("*/15", "*/30", "*/45") for hours in ("*", "*/2", "*/4", "1-4")
]
_PASSINGS += ["* * * * *", "*/2 * * * *", "*/5 * * * *", "* */2 * * *"]
_DAYS_OF = [
    f"{time} {days}"
    for time in ("0 0", "30 1", "30 2", "0 3")
    for days in (
        "1 * *", "15 * *", "31 * *", "28-31 * *", "*/2 * *", "* * 0", "* * 7", "* * 6,0", "* * mon-fri", "* * sun",
        "* 3,10 *", "* mar-apr *", "* */2 *", "1-7 3 0", "25-31 10 7", "29 2 *",
    )
]  # fmt: skip
_RARE = [
    "0 0 13 * 5",
    "30 2 29 3 *",
    "30 2 25-31 10 sun",
    "30 1 1 11 *",
    "*/10 2 29 3 *",
    "0 0 31 12 *",
    "59 23 * * sat",
]

EXPRESSIONS = [*_FIXED_TIMES, *_LATE_TIMES, *_LISTS, *_PASSINGS, *_DAYS_OF, *_RARE]
