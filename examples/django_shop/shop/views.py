"""The shop on the web: `curl -d email=a@example.com localhost:8000/orders/`."""

from django.http import HttpRequest, JsonResponse

from shop.orders import PaymentDeclinedError, place_order


def place(request: HttpRequest) -> JsonResponse:
    """Place an order."""
    try:
        order = place_order(request.POST["email"], declined="declined" in request.POST)
    except PaymentDeclinedError:
        return JsonResponse({"error": "payment declined"}, status=402)
    return JsonResponse({"order": order.pk}, status=201)
