"""The project's pages."""

from django.contrib import admin
from django.urls import path
from shop.views import place

urlpatterns = [path("admin/", admin.site.urls), path("orders/", place)]
